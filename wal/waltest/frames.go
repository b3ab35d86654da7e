package waltest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cdc-relay/cdc-relay/wal"
)

// magic opens a recording. The digit is the version of the format.
//
// After it follow records until the end of the file: the length of a payload as four bytes,
// big-endian, and the payload of one CopyData message of the stream, from its first byte ('w'
// or 'k') on, exactly as the server sent it. There is no checksum and no trailer; a file that
// ends inside a record is refused.
const magic = "cdc-relay frames 1\n"

// maxPayload is the greatest message that Postgres can build (MaxAllocSize).
const maxPayload = 1<<30 - 1

// WriteFrames writes a recording of payloads in stream order.
func WriteFrames(w io.Writer, payloads [][]byte) error {
	b := bufio.NewWriter(w)
	if _, err := b.WriteString(magic); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	for i, p := range payloads {
		if len(p) > maxPayload {
			return fmt.Errorf("write recording: payload %d has %d bytes, more than a message can have", i, len(p))
		}
		size := binary.BigEndian.AppendUint32(nil, uint32(len(p)))
		for _, part := range [][]byte{size, p} {
			if _, err := b.Write(part); err != nil {
				return fmt.Errorf("write recording: %w", err)
			}
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return nil
}

// ReadPayloads reads a recording as it was written.
func ReadPayloads(r io.Reader) ([][]byte, error) {
	b := bufio.NewReader(r)
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(b, head); err != nil || string(head) != magic {
		return nil, fmt.Errorf("read recording: it doesn't begin with %q", magic)
	}
	var payloads [][]byte
	for {
		var size [4]byte
		if _, err := io.ReadFull(b, size[:]); errors.Is(err, io.EOF) {
			return payloads, nil
		} else if err != nil {
			return nil, fmt.Errorf("read recording: length of payload %d: %w", len(payloads), err)
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxPayload {
			return nil, fmt.Errorf("read recording: payload %d claims %d bytes, more than a message can have", len(payloads), n)
		}
		// Grows with what is there, so that a wrong length can't take the machine's memory.
		p, err := io.ReadAll(io.LimitReader(b, int64(n)))
		if err != nil {
			return nil, fmt.Errorf("read recording: payload %d: %w", len(payloads), err)
		}
		if len(p) < int(n) {
			return nil, fmt.Errorf("read recording: payload %d: %w", len(payloads), io.ErrUnexpectedEOF)
		}
		payloads = append(payloads, p)
	}
}

// ReadFrames reads a recording as the frames that a Stream would have handed on, each with
// memory of its own.
func ReadFrames(r io.Reader) ([]wal.Frame, error) {
	payloads, err := ReadPayloads(r)
	if err != nil {
		return nil, err
	}
	frames := make([]wal.Frame, len(payloads))
	for i, p := range payloads {
		if frames[i], _, err = wal.ParseFrame(p); err != nil {
			return nil, fmt.Errorf("read recording: payload %d: %w", i, err)
		}
	}
	return frames, nil
}

// ReadFile reads the frames of a recording in a file.
func ReadFile(name string) ([]wal.Frame, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read recording: %w", err)
	}
	defer f.Close()
	frames, err := ReadFrames(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return frames, nil
}

// WriteFile writes a recording to a file, replacing it.
func WriteFile(name string, payloads [][]byte) error {
	f, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	return errors.Join(WriteFrames(f, payloads), f.Close())
}
