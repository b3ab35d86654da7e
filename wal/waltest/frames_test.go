package waltest

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	data1 = append([]byte("w\x00\x00\x00\x16\xB3\x74\xD8\x48\x00\x00\x00\x16\xB3\x74\xD8\x48\x00\x00\x00\x00\x00\x00\x00\x01"), "Bxyz"...)
	keep1 = []byte("k\x00\x00\x00\x16\xB3\x74\xD8\x50\x00\x00\x00\x00\x00\x00\x00\x02\x01")
)

func TestRecordingFormat(t *testing.T) {
	var b bytes.Buffer
	if err := WriteFrames(&b, [][]byte{data1, keep1}); err != nil {
		t.Fatal(err)
	}
	want := "cdc-relay frames 1\n" + "\x00\x00\x00\x1d" + string(data1) + "\x00\x00\x00\x12" + string(keep1)
	if b.String() != want {
		t.Errorf("recording is %q, want %q", b.String(), want)
	}
	frames, err := ReadFrames(&b)
	if err != nil || len(frames) != 2 {
		t.Fatalf("frames: %v, %v", frames, err)
	}
	if f := frames[0]; f.End != 0x16_B374D848 || string(f.Data) != "Bxyz" {
		t.Errorf("data frame: %+v", f)
	}
	if f := frames[1]; f.End != 0x16_B374D850 || f.Data != nil {
		t.Errorf("keepalive: %+v", f)
	}
}

func TestRecordingFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.frames")
	if err := WriteFile(name, [][]byte{data1}); err != nil {
		t.Fatal(err)
	}
	if frames, err := ReadFile(name); err != nil || len(frames) != 1 {
		t.Errorf("frames: %v, %v", frames, err)
	}
	if _, err := ReadFile(name + "x"); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestRecordingRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := WriteFrames(&b, [][]byte{data1, keep1}); err != nil {
		t.Fatal(err)
	}
	whole := b.String()
	for cut := range len(whole) {
		// The only places where a recording may end are behind its records.
		if cut == len(magic) || cut == len(magic)+4+len(data1) {
			continue
		}
		if _, err := ReadFrames(strings.NewReader(whole[:cut])); err == nil {
			t.Errorf("a recording cut to %d of %d bytes is no error", cut, len(whole))
		}
	}
	for name, s := range map[string]string{
		"other version": strings.Replace(whole, "frames 1", "frames 2", 1),
		"huge length":   magic + "\xff\xff\xff\xff",
		"unknown kind":  magic + "\x00\x00\x00\x01x",
	} {
		if _, err := ReadFrames(strings.NewReader(s)); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}

func FuzzRecording(f *testing.F) {
	f.Add([]byte("a"), []byte(""), []byte("ccc"))
	f.Fuzz(func(t *testing.T, x, y, z []byte) {
		in := [][]byte{x, y, z}
		var b bytes.Buffer
		if err := WriteFrames(&b, in); err != nil {
			t.Fatal(err)
		}
		out, err := ReadPayloads(&b)
		if err != nil || !slices.EqualFunc(in, out, bytes.Equal) {
			t.Fatalf("%q became %q, %v", in, out, err)
		}
	})
}
