package checkpoint

import "github.com/cdc-relay/cdc-relay/wal"

// idleBytes is how far the position moves without events before it is worth a write. Each write
// makes WAL itself (a few hundred bytes, 8 KiB after a checkpoint), which moves the position
// again: a smaller number would have an idle relay write for ever. Measured on Postgres 15.
const idleBytes = 256 << 10

// DueToSave says whether the confirmed position is worth a write now, where stored is what the
// last write held, and events whether any event has been confirmed since. The caller asks at
// most once a second; at a stop it writes what is confirmed without asking.
func DueToSave(stored, confirmed wal.LSN, events bool) bool {
	if confirmed <= stored {
		return false
	}
	return events || confirmed-stored >= idleBytes
}
