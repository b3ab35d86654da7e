package crash

import (
	"context"
	"syscall"
	"time"

	"github.com/cdc-relay/cdc-relay/internal/devenv"
	"github.com/cdc-relay/cdc-relay/test/proxy"
)

// part is what a fault strikes. Two faults at once never strike the same part.
type part int

const (
	relayPart part = 1 << iota
	postgresPart
	brokerPart
	postgresWire
	brokerWire
	everything = relayPart | postgresPart | brokerPart | postgresWire | brokerWire
)

// fault is something that goes wrong: it begins, lasts for a while, and ends. When end has returned
// nothing stands in the relay's way any more.
type fault struct {
	name  string
	hits  part
	begin func(*world)
	end   func(*world) // nil where the fault is over at once
	// once: nothing is published twice because of it. Only a crash of the relay and a lost connection
	// to Postgres may repeat events.
	once bool
	// longest bounds how long it lasts; zero is no bound.
	longest time.Duration
}

// faults are all that we know how to do.
func faults() []fault {
	all := relayFaults()
	all = append(all, postgresFaults()...)
	all = append(all, brokerFaults()...)
	all = append(all, hangFaults()...)
	return append(all, wireFaults()...)
}

func relayFaults() []fault {
	return []fault{
		{
			name: "relay: kill -9", hits: relayPart,
			begin: func(w *world) { w.relay.Kill() },
			end:   (*world).start,
		},
		{
			name: "relay: stop", hits: relayPart, once: true,
			begin: func(w *world) { w.stop(w.relay) },
			end:   (*world).start,
		},
		{
			// Shorter than what makes Postgres give the connection up.
			name: "relay: freeze", hits: relayPart, once: true, longest: 2 * time.Second,
			begin: func(w *world) { w.relay.Signal(syscall.SIGSTOP) },
			end:   func(w *world) { w.relay.Signal(syscall.SIGCONT) },
		},
		{
			name: "relay: kill -9 beside a standby", hits: everything,
			begin: func(w *world) {
				second := w.spawn()
				second.WaitPhase("standby")
				w.relay.Kill()
				w.relay = second
			},
		},
		{
			// Postgres gives the frozen one up, the standby takes over, and then the first wakes with
			// all that it had in flight.
			name: "relay: freeze until taken over", hits: everything, longest: time.Second,
			begin: func(w *world) {
				second := w.spawn()
				second.WaitPhase("standby")
				w.relay.Signal(syscall.SIGSTOP)
				second.WaitPhase("streaming")
				w.relay, w.aside = second, w.relay
			},
			end: func(w *world) {
				w.aside.Signal(syscall.SIGCONT)
				w.aside.WaitPhase("standby")
				w.stop(w.aside)
				w.aside = nil
			},
		},
	}
}

func postgresFaults() []fault {
	return []fault{
		{
			name: "postgres: kill -9", hits: postgresPart,
			begin: func(w *world) {
				w.must(w.postgres.Kill())
				w.must(w.toPostgres.Refuse(true))
			},
			end: (*world).startPostgres,
		},
		{
			name: "postgres: fast stop", hits: postgresPart,
			begin: func(w *world) { w.shutDown(devenv.Fast) },
			end:   (*world).startPostgres,
		},
		{
			name: "postgres: immediate stop", hits: postgresPart,
			begin: func(w *world) { w.shutDown(devenv.Immediate) },
			end:   (*world).startPostgres,
		},
		{
			name: "postgres: walsender terminated", hits: postgresPart,
			begin: func(w *world) { w.terminate("walsender") },
		},
		{
			name: "postgres: SQL terminated", hits: postgresPart,
			begin: func(w *world) { w.terminate("client backend") },
		},
		{
			// Publishing goes on, and nothing more is confirmed: what Postgres was told, it has on disk.
			name: "postgres: row of the position locked", hits: postgresPart, once: true,
			begin: func(w *world) {
				w.lockRow()
				hold(storeDue)
			},
			end: func(w *world) { w.must(w.lock.Close(context.Background())) },
		},
	}
}

func brokerFaults() []fault {
	return []fault{
		{
			name: "broker: kill -9", hits: brokerPart, once: true,
			begin: func(w *world) {
				w.must(w.broker.Kill())
				w.must(w.toBroker.Refuse(true))
			},
			end: (*world).startBroker,
		},
		{
			name: "broker: stop", hits: brokerPart, once: true,
			begin: func(w *world) {
				w.must(w.broker.Stop(w.t.Context()))
				w.must(w.toBroker.Refuse(true))
			},
			end: (*world).startBroker,
		},
		{
			name: "broker: freeze", hits: brokerPart, once: true,
			begin: func(w *world) { w.must(w.broker.Freeze()) },
			end:   func(w *world) { w.must(w.broker.Thaw()) },
		},
	}
}

// storeDue is longer than the time between two writes of the stored position.
const storeDue = 1500 * time.Millisecond

// hangFaults end something while the broker answers nothing: events are then in flight, whereas mostly
// they are acknowledged within a millisecond, and what was confirmed too soon has been stored.
func hangFaults() []fault {
	hang := func(w *world) {
		w.must(w.broker.Freeze())
		hold(storeDue)
	}
	return []fault{
		{
			name: "relay: kill -9 as the broker hangs", hits: relayPart | brokerPart,
			begin: func(w *world) {
				hang(w)
				w.relay.Kill()
			},
			end: func(w *world) {
				w.must(w.broker.Thaw())
				w.start()
			},
		},
		{
			name: "postgres: kill -9 as the broker hangs", hits: postgresPart | brokerPart,
			begin: func(w *world) {
				hang(w)
				w.must(w.postgres.Kill())
				w.must(w.toPostgres.Refuse(true))
			},
			end: func(w *world) {
				w.startPostgres()
				w.must(w.broker.Thaw())
			},
		},
		{
			name: "postgres wire: cut as the broker hangs", hits: postgresWire | brokerPart,
			begin: func(w *world) {
				hang(w)
				w.cut(w.toPostgres)
			},
			end: func(w *world) { w.must(w.broker.Thaw()) },
		},
	}
}

// wire is a proxy to break.
type wire struct {
	name string
	part part
	to   func(*world) *proxy.Proxy
	once bool
}

func wireFaults() []fault {
	wires := []wire{
		{"postgres wire", postgresWire, func(w *world) *proxy.Proxy { return w.toPostgres }, false},
		{"broker wire", brokerWire, func(w *world) *proxy.Proxy { return w.toBroker }, true},
	}
	all := []fault{{
		name: "both wires: cut", hits: postgresWire | brokerWire,
		begin: func(w *world) {
			w.cut(w.toBroker)
			w.cut(w.toPostgres)
		},
	}}
	for _, x := range wires {
		all = append(all, x.faults()...)
	}
	return all
}

func (x wire) faults() []fault {
	return []fault{
		{
			name: x.name + ": cut", hits: x.part, once: x.once,
			begin: func(w *world) { w.cut(x.to(w)) },
		},
		{
			// A request arrives and the answer never does.
			name: x.name + ": answers lost", hits: x.part, once: x.once,
			begin: func(w *world) { w.freeze(x.to(w), proxy.Down) },
			end: func(w *world) {
				x.to(w).Cut()
				x.to(w).Thaw(proxy.Down)
			},
		},
		{
			// Or it never arrives.
			name: x.name + ": requests lost", hits: x.part, once: x.once,
			begin: func(w *world) { w.freeze(x.to(w), proxy.Up) },
			end: func(w *world) {
				x.to(w).Cut()
				x.to(w).Thaw(proxy.Up)
			},
		},
		{
			name: x.name + ": stalled", hits: x.part, once: x.once,
			begin: func(w *world) { w.freeze(x.to(w)) },
			end:   func(w *world) { x.to(w).Thaw() },
		},
		{
			name: x.name + ": refused", hits: x.part, once: x.once,
			begin: func(w *world) {
				w.must(x.to(w).Refuse(true))
				w.cut(x.to(w))
			},
			end: func(w *world) { w.must(x.to(w).Refuse(false)) },
		},
	}
}
