package relay

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cdc-relay/cdc-relay/wal"
)

// coder is an error that knows the exit code it ends the process with. Such an error is
// final: trying again can't mend it.
type coder interface{ ExitCode() int }

// refusedError is an answer of Postgres that no retry changes: a missing object, database or
// privilege, or a refused login.
type refusedError struct {
	error
	hint string // empty: what the SQLSTATE suggests
}

func (e refusedError) Unwrap() error { return e.error }
func (e refusedError) ExitCode() int { return 2 }
func (e refusedError) Hint() string  { return e.hint }

// final returns err as an error with an exit code where it must end the relay, and nil where
// trying again may help.
func final(err error) error {
	var c coder
	switch {
	case errors.As(err, &c):
		return err
	case errors.Is(err, wal.ErrPublicationMissing):
		return refusedError{err, "name a publication that existed then, or give the slot up and publish the gap from the table"}
	case errors.Is(err, wal.ErrServerTooOld):
		return refusedError{err, "upgrade Postgres, or connect to another server"}
	case errors.Is(err, wal.ErrSlotMissing), errors.Is(err, wal.ErrSlotLost):
		return nil // the next decision on where to start says what that means
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return nil
	}
	if Refused(pg.Code) {
		return refusedError{error: err}
	}
	return nil
}

// Refused says that an answer of Postgres is one that no retry changes: a login that is refused, or an
// object or a right that is missing. It goes by the classes of the SQLSTATE: 28 invalid authorization, 3D
// and 3F invalid catalog or schema name, 42 syntax error or access rule violation.
func Refused(state string) bool {
	for _, class := range []string{"28", "3D", "3F", "42"} {
		if strings.HasPrefix(state, class) {
			return true
		}
	}
	return false
}

// pace is how the relay waits between tries: soon at first, since most faults are short, and at
// most every 5 s, since an outage must not be prolonged by us. The relays of several slots spread over a fifth to
// either side, each by the name of its slot: without chance, so that a run can be repeated.
func pace(slot string) *backoff.ExponentialBackOff {
	h := fnv.New32a()
	_, _ = h.Write([]byte(slot)) // a hash never fails
	spread := 0.8 + 0.4*float64(h.Sum32()%1000)/1000
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = time.Duration(spread * float64(100*time.Millisecond))
	b.Multiplier = 2
	b.RandomizationFactor = 0
	b.MaxInterval = time.Duration(spread * float64(5*time.Second))
	return b
}

// retry asks, at the pace of the slot, until there is an answer, ctx ends, or the error is final.
func retry[T any](ctx context.Context, slot, what string, notify func(error), ask func() (T, error)) (T, error) {
	v, err := backoff.Retry(ctx, func() (T, error) {
		v, err := ask()
		if err == nil {
			return v, nil
		}
		err = fmt.Errorf("%s: %w", what, err)
		if f := final(err); f != nil {
			return v, backoff.Permanent(f)
		}
		return v, err
	}, backoff.WithBackOff(pace(slot)), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) { notify(err) }))
	if ctx.Err() != nil && err != nil {
		return v, context.Cause(ctx)
	}
	return v, err
}
