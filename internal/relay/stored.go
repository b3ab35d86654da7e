package relay

import (
	"sync/atomic"

	"github.com/cdc-relay/cdc-relay/wal"
)

// storedAt is the position that our own row durably holds. Only the saver raises it, after
// the write; wal confirms it to Postgres.
type storedAt struct{ v atomic.Uint64 }

func (s *storedAt) Stored() wal.LSN { return wal.LSN(s.v.Load()) }

func (s *storedAt) set(l wal.LSN) { s.v.Store(uint64(l)) }
