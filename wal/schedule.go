package wal

import "time"

// schedule says when the next status is due. The zero value of its times means at once.
type schedule struct {
	interval time.Duration
	last     time.Time // of the last status
	asked    bool      // by a keepalive, since then
}

// due is when a status has to be sent.
func (s *schedule) due() time.Time {
	if s.asked && replyGap < s.interval {
		return s.last.Add(replyGap)
	}
	return s.last.Add(s.interval)
}

// sent notes a status. probe tells whether it shall ask for a reply: a server that has just
// asked us is known to be alive.
func (s *schedule) sent(now time.Time) (probe bool) {
	probe = !s.asked
	s.last, s.asked = now, false
	return probe
}
