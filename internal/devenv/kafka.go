package devenv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	kafkafiles "github.com/cdc-relay/cdc-relay/test/kafka"
)

// KafkaOptions say how to start a Kafka broker. The zero value is fine.
type KafkaOptions struct {
	// Settings are added to the broker's properties and win over ours.
	Settings map[string]string
	// Dir is the folder to make the broker's folder in; empty is the system's temporary one.
	Dir string
	// Via, where not nil, puts something between the broker and some of its clients, such as a
	// proxy that can be cut. It is told the address, host:port, at which the broker listens for
	// them, and returns the one that the broker is to name to them. It is called again, with
	// another address, where that port was taken. Those who use Brokers go straight.
	Via func(target string) (string, error)
	// Progress, where not nil, is told in a few words what takes time.
	Progress func(string)
}

// ErrNoKafka says that no Kafka can be started on this machine; the error that wraps it
// says what is missing.
var ErrNoKafka = errors.New("no Kafka can be started here")

// Kafka is a real broker, a cluster of one, that this process owns. Brokers, Version and
// Dir may be called from any goroutine; Kill also while a Stop waits. The other calls come
// one after the other.
type Kafka struct {
	java    string
	libs    string
	version string
	folder  *Folder
	brokers []string

	mu   sync.Mutex
	proc *Process // nil while the broker is down
}

// StartKafka makes a new broker without topics and starts it. Topics are never created by
// being used. Where Java 17 or Maven is missing the error wraps [ErrNoKafka]. The caller
// closes it.
func StartKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	progress := o.Progress
	if progress == nil {
		progress = func(string) {}
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	f, err := NewFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	k := &Kafka{java: java, folder: f}
	if err := k.create(ctx, o, progress); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (k *Kafka) create(ctx context.Context, o KafkaOptions, progress func(string)) error {
	var err error
	if k.libs, err = kafkaLibraries(ctx, k.folder.path, progress); err != nil {
		return err
	}
	if k.version, err = kafkaVersion(k.libs); err != nil {
		return err
	}
	progress("starting Kafka " + k.version)
	if err := os.Mkdir(k.path("tmp"), 0o755); err != nil {
		return fmt.Errorf("make Kafka's folder: %w", err)
	}
	if err := os.WriteFile(k.path("log4j2.properties"), kafkafiles.Log4j, 0o644); err != nil {
		return fmt.Errorf("configure Kafka: %w", err)
	}
	for try := 1; ; try++ {
		ports, err := k.configure(o)
		if err != nil {
			return err
		}
		if err = k.format(ctx); err != nil {
			return err
		}
		if err = k.Start(ctx); err == nil || ctx.Err() != nil || try == portTries {
			return err
		}
		if !slices.ContainsFunc(ports, portTaken) {
			return err
		}
	}
}

func (k *Kafka) path(name string) string { return filepath.Join(k.folder.path, name) }

// configure writes the broker's properties for free ports, which it returns.
func (k *Kafka) configure(o KafkaOptions) ([]int, error) {
	client, err := freePort()
	if err != nil {
		return nil, err
	}
	control, err := freePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", client)
	all := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       fmt.Sprintf("1@127.0.0.1:%d", control),
		"listeners":                      fmt.Sprintf("PLAINTEXT://%s,CONTROLLER://127.0.0.1:%d", address, control),
		"advertised.listeners":           "PLAINTEXT://" + address,
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"log.dirs":                       k.path("data"),
		"auto.create.topics.enable":      "false",
		// After a kill the controller keeps the broker out until its old session ends: 9 s
		// by default.
		"broker.session.timeout.ms":    "3000",
		"broker.heartbeat.interval.ms": "500",
		// The internal topics: as small as a cluster of one allows.
		"offsets.topic.num.partitions":                     "1",
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.num.partitions":             "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.num.partitions":     "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"group.initial.rebalance.delay.ms":                 "0",
	}
	ports := []int{client, control}
	if o.Via != nil {
		port, err := listenVia(all, o.Via)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	maps.Copy(all, o.Settings)
	var sb strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&sb, "%s=%s\n", name, strings.ReplaceAll(all[name], `\`, `\\`))
	}
	if err := os.WriteFile(k.path("broker.properties"), []byte(sb.String()), 0o644); err != nil {
		return nil, fmt.Errorf("configure Kafka: %w", err)
	}
	k.brokers = []string{address}
	return ports, nil
}

// listenVia adds a second listener for clients, which is named to them by another address.
func listenVia(all map[string]string, via func(string) (string, error)) (int, error) {
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	target := fmt.Sprintf("127.0.0.1:%d", port)
	named, err := via(target)
	if err != nil {
		return 0, err
	}
	all["listeners"] += ",VIA://" + target
	all["advertised.listeners"] += ",VIA://" + named
	all["listener.security.protocol.map"] += ",VIA:PLAINTEXT"
	return port, nil
}

// clusterID is any id in Kafka's form: 16 bytes in base64. Ours all have the same.
const clusterID = "Y2RjLXJlbGF5LWRldmVudg"

// format prepares an empty data folder, as each broker's must be before its first start.
func (k *Kafka) format(ctx context.Context) error {
	if err := os.RemoveAll(k.path("data")); err != nil {
		return fmt.Errorf("empty Kafka's data folder: %w", err)
	}
	log := k.path("format.log")
	proc, err := StartProcess(k.command("kafka.tools.StorageTool", "format", "-t", clusterID, "-c", k.path("broker.properties")), log, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := proc.Wait(ctx); err != nil {
		killGroup(proc.PID())
		<-proc.done
		return err
	}
	if proc.err != nil {
		return fmt.Errorf("format Kafka's data folder: %w; its last lines: %s", proc.err, tail(log))
	}
	return nil
}

// command runs a class of the broker. The compiler's first tier alone starts faster and
// costs less in the minute that a test or a demo takes. Nothing is written outside the
// folder: not the JVM's counters, not the compression libraries it unpacks.
func (k *Kafka) command(class string, args ...string) *exec.Cmd {
	all := []string{
		"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", noCounters,
		"-Djava.io.tmpdir=" + k.path("tmp"), "-Dlog4j2.configurationFile=" + k.path("log4j2.properties"),
		"-cp", filepath.Join(k.libs, "*"), class,
	}
	cmd := exec.Command(k.java, append(all, args...)...)
	cmd.Dir = k.folder.path
	return cmd
}

// Start starts the broker again on the same data and port, and returns when it answers. It
// is an error while the broker runs.
func (k *Kafka) Start(ctx context.Context) error {
	if k.folder == nil {
		return fmt.Errorf("start Kafka: %w", ErrNotOurs)
	}
	if k.running() != nil {
		return errors.New("start Kafka: it is running")
	}
	proc, err := StartProcess(k.command("kafka.Kafka", k.path("broker.properties")), k.path("kafka.log"), syscall.SIGKILL)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.proc = proc
	k.mu.Unlock()
	if err := proc.until(ctx, startLimit, k.ping); err != nil {
		return errors.Join(fmt.Errorf("start Kafka %s: %w", k.version, err), k.Kill())
	}
	return nil
}

func (k *Kafka) ping(ctx context.Context) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", k.brokers[0])
	if err != nil {
		return err // cheaper than a client that tries again and again
	}
	if err := conn.Close(); err != nil {
		return err
	}
	return answers(ctx, k.brokers)
}

// Stop asks the broker to stop and returns when it has ended. When ctx ends first the
// broker was asked all the same, and may still run.
func (k *Kafka) Stop(ctx context.Context) error {
	if k.folder == nil {
		return fmt.Errorf("stop Kafka: %w", ErrNotOurs)
	}
	proc := k.running()
	if proc == nil {
		return nil
	}
	if err := proc.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop Kafka: %w", err)
	}
	if err := proc.Wait(ctx); err != nil {
		return fmt.Errorf("stop Kafka: %w", err)
	}
	return nil
}

// Kill ends the broker with SIGKILL, as a crash, also a frozen one.
func (k *Kafka) Kill() error {
	return k.send("kill", syscall.SIGKILL, true)
}

// Freeze stops the broker in its tracks; its connections stay open and nobody answers.
func (k *Kafka) Freeze() error { return k.send("freeze", syscall.SIGSTOP, false) }

// Thaw lets a frozen broker go on.
func (k *Kafka) Thaw() error { return k.send("thaw", syscall.SIGCONT, false) }

func (k *Kafka) send(what string, sig syscall.Signal, ends bool) error {
	if k.folder == nil {
		return fmt.Errorf("%s Kafka: %w", what, ErrNotOurs)
	}
	proc := k.running()
	if proc == nil {
		return nil
	}
	if err := proc.Signal(sig); err != nil {
		return fmt.Errorf("%s Kafka: %w", what, err)
	}
	if ends {
		<-proc.done
	}
	return nil
}

// Close kills the broker and removes all it has. It may be called twice.
func (k *Kafka) Close() error {
	if k.folder == nil {
		return nil
	}
	return errors.Join(k.Kill(), k.folder.Remove())
}

func (k *Kafka) running() *Process {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.proc == nil || !k.proc.Alive() {
		return nil
	}
	return k.proc
}

// Brokers implements [Broker].
func (k *Kafka) Brokers() []string { return slices.Clone(k.brokers) }

// Kind implements [Broker]: kafka.
func (k *Kafka) Kind() string { return "kafka" }

// Version is the broker's version, such as 4.3.1; empty where it isn't ours.
func (k *Kafka) Version() string { return k.version }

// Dir is the folder that holds the broker's data and log; empty where it isn't ours.
func (k *Kafka) Dir() string {
	if k.folder == nil {
		return ""
	}
	return k.folder.path
}

// PID is the broker's process id, also after its end; 0 before the first start.
func (k *Kafka) PID() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.proc == nil {
		return 0
	}
	return k.proc.PID()
}

// ConnectKafka returns a running cluster of somebody else's. It can't be stopped, killed,
// frozen or started through here, and Close does nothing.
func ConnectKafka(ctx context.Context, brokers []string) (*Kafka, error) {
	if err := answers(ctx, brokers); err != nil {
		return nil, fmt.Errorf("connect to Kafka at %s: %w", strings.Join(brokers, ","), err)
	}
	return &Kafka{brokers: slices.Clone(brokers)}, nil
}
