package devenv

import (
	"fmt"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Embedded is a broker in this process: franz-go's kfake, which speaks Kafka's protocol
// with idempotent producers, and keeps its records in memory. It has no replication.
type Embedded struct {
	cluster *kfake.Cluster
}

// StartEmbedded starts a broker in this process, a cluster of one unless an option says
// otherwise. Topics are never created by being used. The caller closes it.
func StartEmbedded(options ...kfake.Opt) (*Embedded, error) {
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return &Embedded{cluster: cluster}, nil
}

// Cluster gives tests kfake's own controls, such as faults.
func (e *Embedded) Cluster() *kfake.Cluster { return e.cluster }

// Brokers implements [Broker].
func (e *Embedded) Brokers() []string { return e.cluster.ListenAddrs() }

// Kind implements [Broker]: embedded.
func (e *Embedded) Kind() string { return "embedded" }

// Version is that of the kfake module.
func (e *Embedded) Version() string {
	const module = "github.com/twmb/franz-go/pkg/kfake"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return "kfake " + m.Version
			}
		}
	}
	return "kfake"
}

// Close ends the broker; its records are gone.
func (e *Embedded) Close() error {
	e.cluster.Close()
	return nil
}
