package lab

import (
	"bytes"
	"fmt"
)

// The parts of a log that are kept: how it began, and what came last.
const (
	headKept = 64 << 10
	tailKept = 192 << 10
)

// keptLog is a log without its middle.
type keptLog struct {
	head, tail bytes.Buffer
	cut        int // bytes left out
}

// add appends a line.
func (l *keptLog) add(line []byte) {
	to := &l.tail
	if l.tail.Len() == 0 && l.head.Len()+len(line) < headKept {
		to = &l.head
	}
	to.Write(line)
	to.WriteByte('\n')
	for l.tail.Len() > tailKept {
		first, err := l.tail.ReadBytes('\n')
		l.cut += len(first)
		if err != nil {
			return
		}
	}
}

func (l *keptLog) String() string {
	if l.cut == 0 {
		return l.head.String() + l.tail.String()
	}
	return fmt.Sprintf("%s... %d bytes are left out ...\n%s", l.head.String(), l.cut, l.tail.String())
}
