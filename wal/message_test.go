package wal

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

func dataMessage(start, end LSN, at int64, data string) []byte {
	b := binary.BigEndian.AppendUint64([]byte{kindData}, uint64(start))
	b = binary.BigEndian.AppendUint64(b, uint64(end))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return append(b, data...)
}

func keepalive(end LSN, at int64, reply byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{kindKeepalive}, uint64(end))
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	return append(b, reply)
}

func TestParseFrame(t *testing.T) {
	at := time.Date(2026, 8, 25, 13, 4, 5, 678901000, time.UTC)
	f, reply, err := ParseFrame(dataMessage(7, 7, at.UnixMicro()-pgEpochMicros, "I..."))
	if err != nil || reply || f.End != 7 || !f.At.Equal(at) || string(f.Data) != "I..." {
		t.Errorf("data: %+v, %v, %v", f, reply, err)
	}
	if f, _, err = ParseFrame(dataMessage(0, 0, 0, "")); err != nil || f.Data == nil {
		t.Errorf("empty data must not look like a keepalive: %+v, %v", f, err)
	}
	if y := f.At; !y.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("clock 0 is %v", y)
	}
	f, reply, err = ParseFrame(keepalive(1<<40, 5, 1))
	if err != nil || !reply || f.End != 1<<40 || f.Data != nil {
		t.Errorf("keepalive: %+v, %v, %v", f, reply, err)
	}
	if _, reply, _ = ParseFrame(keepalive(1, 5, 0)); reply {
		t.Error("keepalive without a request asks for a reply")
	}
}

func TestParseFrameRefuses(t *testing.T) {
	for name, b := range map[string][]byte{
		"empty":           {},
		"short data":      dataMessage(1, 1, 1, "")[:dataHeader-1],
		"short keepalive": keepalive(1, 1, 0)[:keepaliveSize-1],
		"long keepalive":  append(keepalive(1, 1, 0), 0),
		"unknown kind":    append([]byte{'s'}, make([]byte, 40)...),
	} {
		if f, _, err := ParseFrame(b); err == nil {
			t.Errorf("%s: %+v, want an error", name, f)
		}
	}
}

// pglogrepl reads the same messages with code of its own. Its clock overflows in 2292.
func FuzzParseFrame(f *testing.F) {
	f.Add(dataMessage(1, 2, 3, "B"))
	f.Add(keepalive(1, 2, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := bytes.Clone(b)
		got, reply, err := ParseFrame(b)
		if !bytes.Equal(in, b) {
			t.Fatal("the payload was changed")
		}
		if err != nil {
			return
		}
		clock := got.At.Year() > 1800 && got.At.Year() < 2200
		if got.Data == nil {
			k, err := pglogrepl.ParsePrimaryKeepaliveMessage(b[1:])
			if err != nil || LSN(k.ServerWALEnd) != got.End || k.ReplyRequested != reply && b[17] <= 1 || clock && !k.ServerTime.Equal(got.At) {
				t.Fatalf("%+v, %v; the reference says %+v, %v", got, reply, k, err)
			}
			return
		}
		x, err := pglogrepl.ParseXLogData(b[1:])
		if err != nil || LSN(x.WALStart) != got.End || clock && !x.ServerTime.Equal(got.At) || !bytes.Equal(x.WALData, got.Data) {
			t.Fatalf("%+v; the reference says %+v, %v", got, x, err)
		}
	})
}

func TestPutStatus(t *testing.T) {
	var b [statusSize]byte
	now := time.Date(2026, 8, 25, 13, 4, 5, 678901000, time.UTC)
	putStatus(&b, 0x16_B374D848, now, true)
	want := []byte{'r'}
	for range 3 {
		want = binary.BigEndian.AppendUint64(want, 0x16_B374D848)
	}
	want = binary.BigEndian.AppendUint64(want, uint64(now.UnixMicro()-pgEpochMicros))
	if want = append(want, 1); !bytes.Equal(b[:], want) {
		t.Errorf("status is %x, want %x", b, want)
	}
	putStatus(&b, 1, now, false)
	if b[33] != 0 {
		t.Error("a status that asks for nothing asks for a reply")
	}
}
