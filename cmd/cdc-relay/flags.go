package main

import (
	"github.com/spf13/cobra"

	"github.com/cdc-relay/cdc-relay/internal/config"
)

// keyFlags are the flags of configuration keys on one command, and --config.
type keyFlags struct {
	app    *app
	file   string
	values map[string]*keyValue // by key
}

// keyFlags adds the flags of the keys named to cmd, or those of all keys.
func (a *app) keyFlags(cmd *cobra.Command, keys ...string) *keyFlags {
	f := &keyFlags{app: a, values: map[string]*keyValue{}}
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file (default: the variable CDC_RELAY_CONFIG)")
	for _, kf := range config.Flags(keys...) {
		v := &keyValue{kind: kf.Kind, text: kf.Default}
		f.values[kf.Key] = v
		flag := cmd.Flags().VarPF(v, kf.Name, "", kf.Usage)
		if kf.Kind == config.Bool {
			flag.NoOptDefVal = "true"
		}
	}
	return f
}

// load puts flags, environment and file together.
func (f *keyFlags) load(need ...string) (config.Config, error) {
	given := map[string]string{}
	for key, v := range f.values {
		if v.given {
			given[key] = v.text
		}
	}
	return config.Load(config.Sources{File: f.file, Environ: f.app.environ, Flags: given, Need: need})
}

// keyValue is the text of one flag. Package config parses it, so that every source of a value
// is judged by the same code.
type keyValue struct {
	kind  config.Kind
	text  string
	given bool
}

func (v *keyValue) String() string { return v.text }

// Set takes a value; a list grows with each.
func (v *keyValue) Set(s string) error {
	if v.given && v.kind == config.List {
		s = v.text + "," + s
	}
	v.text, v.given = s, true
	return nil
}

func (v *keyValue) Type() string {
	switch v.kind {
	case config.Bool:
		return "bool"
	case config.List:
		return "list"
	}
	return "string"
}

// output is the flag --output: text for people, or JSON for machines.
type output string

func (a *app) outputFlag(cmd *cobra.Command, text output) *output {
	o := text
	cmd.Flags().VarP(&o, "output", "o", "form of the output: "+string(text)+" or json")
	return &o
}

func (o *output) String() string { return string(*o) }

func (o *output) Type() string { return "form" }

// Set takes json or the command's own form.
func (o *output) Set(s string) error {
	if s != "json" && s != string(*o) {
		return errOutput(*o)
	}
	*o = output(s)
	return nil
}

type errOutput string

func (e errOutput) Error() string { return "it is neither " + string(e) + " nor json" }
