package kafka

import "sync/atomic"

// Stats are counts since the sink was opened, and what is under way now.
type Stats struct {
	Taken      uint64 // records
	Settled    uint64 // records, by an ack or a verdict
	Acked      uint64 // records
	Requests   uint64 // Produce requests sent
	Retries    uint64 // batches that had to be sent again
	Rejected   uint64 // refused records that a verdict was asked for
	Reconnects uint64 // connections to brokers lost
	// Epochs counts how often a broker lost a producer's state. Each time the batch under way
	// may be in the log twice.
	Epochs uint64
}

type counters struct {
	acked, requests, retries, rejected, reconnects, epochs atomic.Uint64
}

// Stats returns the counts.
func (s *Sink) Stats() Stats {
	return Stats{
		Taken:      s.taken.Load(),
		Settled:    s.settled.Load(),
		Acked:      s.stats.acked.Load(),
		Requests:   s.stats.requests.Load(),
		Retries:    s.stats.retries.Load(),
		Rejected:   s.stats.rejected.Load(),
		Reconnects: s.stats.reconnects.Load(),
		Epochs:     s.stats.epochs.Load(),
	}
}
