package waltest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/cdc-relay/cdc-relay/wal"
)

// commitEnd returns the end LSN of a pgoutput Commit message.
func commitEnd(data []byte) (wal.LSN, bool) {
	m, err := pglogrepl.Parse(data)
	if c, ok := m.(*pglogrepl.CommitMessage); err == nil && ok {
		return wal.LSN(c.TransactionEndLSN), true
	}
	return 0, false
}

// Record streams a slot from its confirmed position until a commit, or a keepalive outside a
// transaction, reaches until, and returns the payloads of the CopyData messages. It asks for
// protocol version 1 with messages and pins the settings that change how values print, as
// wal.Stream does. It confirms nothing, so the slot stays where it is and the server cuts a
// recording that takes longer than wal_sender_timeout.
func Record(ctx context.Context, url, slot, publication string, until wal.LSN) ([][]byte, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("record slot %q: %w", slot, err)
	}
	wal.PinStartup(cfg.RuntimeParams)
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("record slot %q: %w", slot, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Quoted, since a slot's name may begin with a digit.
	err = pglogrepl.StartReplication(ctx, conn, `"`+slot+`"`, 0, pglogrepl.StartReplicationOptions{PluginArgs: []string{
		"proto_version '1'", "messages 'true'", "publication_names " + wal.PublicationNames(publication),
	}})
	if err != nil {
		return nil, fmt.Errorf("record slot %q: %w", slot, err)
	}
	payloads, err := record(ctx, conn, until)
	if err != nil {
		return nil, fmt.Errorf("record slot %q: %w", slot, err)
	}
	return payloads, nil
}

func record(ctx context.Context, conn *pgconn.PgConn, until wal.LSN) ([][]byte, error) {
	var payloads [][]byte
	inside := false
	for {
		m, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return nil, err
		}
		switch m := m.(type) {
		case *pgproto3.CopyData:
			f, _, err := wal.ParseFrame(m.Data)
			if err != nil {
				return nil, err
			}
			payloads = append(payloads, bytes.Clone(m.Data))
			end, ok := f.End, f.Data == nil && !inside
			switch {
			case len(f.Data) > 0 && f.Data[0] == 'B':
				inside = true
			case len(f.Data) > 0 && f.Data[0] == 'C':
				inside = false
				end, ok = commitEnd(f.Data)
			}
			if ok && end >= until {
				return payloads, nil
			}
		case *pgproto3.ErrorResponse:
			return nil, pgconn.ErrorResponseToPgError(m)
		case *pgproto3.NoticeResponse:
			return nil, fmt.Errorf("server warns: %s (SQLSTATE %s)", m.Message, m.Code)
		case *pgproto3.CommandComplete, *pgproto3.CopyDone:
			return nil, fmt.Errorf("server ended the stream")
		}
	}
}
