package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker where a release is built from an archive without its history.
var version string

// build says what this binary was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  cobra.NoArgs,
	}
	form := a.outputFlag(cmd, "text")
	cmd.RunE = func(*cobra.Command, []string) error {
		info, _ := debug.ReadBuildInfo()
		b := newBuild(version, info)
		if *form == "json" {
			return a.json(b)
		}
		return write(a.out, "%s\n", b)
	}
	return cmd
}

// newBuild prefers what the linker was told over what the toolchain knows. info may be nil.
func newBuild(version string, info *debug.BuildInfo) build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.time":
				b.Time = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	return b
}

func (b build) String() string {
	s := "cdc-relay " + b.Version
	if b.Commit != "" {
		s += ", commit " + b.Commit
		if b.Modified {
			s += " with changes"
		}
	}
	return s + ", " + b.Go + ", " + b.Platform
}
