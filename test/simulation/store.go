package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cdc-relay/cdc-relay/checkpoint"
	"github.com/cdc-relay/cdc-relay/decode"
	"github.com/cdc-relay/cdc-relay/shard"
	"github.com/cdc-relay/cdc-relay/wal"
)

// store is the relay's own connection to Postgres: the row, the catalog and the contracts.
type store struct{ l *life }

// pinned is the contract as it was first stored.
type pinned struct{ shard.Contract }

// lost tells the life that another relay owns the row: it must publish nothing more.
func (l *life) lost() error {
	l.disowned = true
	l.before = maps.Clone(l.handed)
	return checkpoint.ErrOwnerLost
}

var errStatement = errors.New("could not extend file: No space left on device")

// Take implements relay.Store.
func (s store) Take(ctx context.Context) (wal.LSN, error) {
	pg := s.l.world.pg
	return call(ctx, s.l, "sql take the slot", []string{faultCut, faultCutAfter, faultFail}, func(fault string) (wal.LSN, error) {
		if err := pg.refuses(fault); err != nil {
			return 0, err
		}
		if fault == faultFail {
			return 0, errStatement
		}
		pg.row.Owner = s.l.token
		s.l.disowned = false
		if fault == faultCutAfter {
			return 0, errGone
		}
		s.l.told(pg.row.Stored)
		return pg.row.Stored, nil
	})
}

// CheckOwner implements relay.Store.
func (s store) CheckOwner(ctx context.Context) error {
	pg := s.l.world.pg
	_, err := call(ctx, s.l, "sql check the owner", []string{faultCut, faultFail}, func(fault string) (struct{}, error) {
		if err := pg.refuses(fault); err != nil {
			return struct{}{}, err
		}
		if fault == faultFail {
			return struct{}{}, adminShutdown
		}
		if pg.row.Owner != s.l.token {
			return struct{}{}, s.l.lost()
		}
		return struct{}{}, nil
	})
	return err
}

// Save implements relay.Store. It is two operations: the commit, and the answer.
func (s store) Save(ctx context.Context, l wal.LSN) error {
	pg := s.l.world.pg
	landed := func() { pg.orphans = append(pg.orphans, orphan{s.l.token, l}) }
	o := &op{key: fmt.Sprintf("sql save %s", l), faults: []string{faultCut, faultLate, faultFail}, landed: landed}
	_, err := ask(ctx, s.l, o, func(fault string) (struct{}, error) {
		switch {
		case fault == faultLate: // the connection is lost, the statement isn't
			landed()
			return struct{}{}, errGone
		case fault == faultFail:
			return struct{}{}, errStatement
		}
		if err := pg.refuses(fault); err != nil {
			return struct{}{}, err
		}
		err := pg.save(s.l.token, l)
		if err != nil {
			err = s.l.lost()
		}
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	_, err = call(ctx, s.l, "sql save is answered", []string{faultCut}, func(fault string) (struct{}, error) {
		if err := pg.refuses(fault); err != nil {
			return struct{}{}, err
		}
		s.l.known = max(s.l.known, l)
		return struct{}{}, nil
	})
	return err
}

// Classify implements relay.Catalog. It goes by the OID, as the catalog does: names change.
func (s store) Classify(ctx context.Context, id uint32, _, name string) (decode.Class, error) {
	pg := s.l.world.pg
	return call(ctx, s.l, "sql look up "+name, []string{faultCut, faultFail, faultGone}, func(fault string) (decode.Class, error) {
		if err := pg.refuses(fault); err != nil {
			return decode.Unknown, err
		}
		if fault == faultFail {
			return decode.Unknown, errStatement
		}
		if fault == faultGone { // as far as the catalog knows now
			s.l.troubled.Store(true)
			s.l.lookedFor.Store(true)
			return decode.Unknown, nil
		}
		s.l.lookedFor.Store(false)
		if id == oidOutbox {
			return decode.Outbox, nil
		}
		return decode.Foreign, nil
	})
}

// Contracts implements relay.ContractStore.
func (s store) Contracts(ctx context.Context, topic string) (shard.Contracts, error) {
	pg := s.l.world.pg
	return call(ctx, s.l, "sql read the contracts", []string{faultCut}, func(fault string) (shard.Contracts, error) {
		if err := pg.refuses(fault); err != nil {
			return nil, err
		}
		var cs shard.Contracts
		if pg.pinned != nil && topic == topicName {
			cs = append(cs, pg.pinned.Contract)
		}
		return slices.Clip(cs), nil
	})
}

// PinContract implements relay.ContractStore.
func (s store) PinContract(ctx context.Context, c shard.Contract) (shard.Contract, error) {
	pg := s.l.world.pg
	return call(ctx, s.l, "sql pin the contract", []string{faultCut, faultCutAfter}, func(fault string) (shard.Contract, error) {
		if err := pg.refuses(fault); err != nil {
			return shard.Contract{}, err
		}
		if pg.pinned == nil {
			pg.pinned = &pinned{c}
		}
		if fault == faultCutAfter {
			return shard.Contract{}, errGone
		}
		return pg.pinned.Contract, nil
	})
}
