// Package waltest helps to test what reads a replication stream.
//
// [Serve] plays Postgres's side of the protocol from scripts, in memory, so that it also
// runs on the fake clock of testing/synctest:
//
//	server := waltest.Serve(t, func(c *waltest.Conn) {
//		c.Start(source)
//		c.Data(0x100, begin)
//		if st := c.Status(); st.Flush != 0x80 { ... }
//		c.Finish()
//	})
//	stream, err := wal.Open(ctx, wal.Config{Conn: server.Config(), ...})
//
// [Record] takes down what a real server sends; [WriteFrames] and [ReadFrames] keep
// such recordings in files.
package waltest
