package devenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// PostgresOptions say which Postgres to start. The zero value is fine.
type PostgresOptions struct {
	// Version is a major version ("14" to "18"): the machine's own programs of that version
	// are used, else they are fetched. Empty takes the newest that the machine has from 14
	// on, and fetches the newest known where it has none.
	Version string
	// Settings are added to postgresql.conf and win over ours. {"fsync": "off"} is safe for
	// tests that kill processes (what was written survives in the system's memory); data is
	// then lost only when the machine itself stops.
	Settings map[string]string
	// Dir is the folder to make the server's folder in; empty is the system's temporary one.
	Dir string
	// Progress, where not nil, is told in a few words what takes time.
	Progress func(string)
}

// ErrNotOurs says that a server was not started here, so it can't be stopped here.
var ErrNotOurs = errors.New("the server was not started by this process")

// ConnectPostgres returns a running server of somebody else's. The URL names a superuser.
// It can't be stopped, killed or started through here, and Close does nothing.
func ConnectPostgres(ctx context.Context, url string) (*Postgres, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	version, _, _ := strings.Cut(conn.ParameterStatus("server_version"), " ")
	if err := conn.Close(ctx); err != nil {
		return nil, fmt.Errorf("close the connection to Postgres: %w", err)
	}
	return &Postgres{url: url, programs: postgresPrograms{version: version, origin: "a server of somebody else's"}}, nil
}

// StopMode is how Postgres is asked to stop.
type StopMode int

// The stop modes, as pg_ctl calls them.
const (
	Fast      StopMode = iota // ends sessions; waits until replication has received all
	Immediate                 // stops at once; the next start recovers from the WAL
	Smart                     // waits for all sessions to end by themselves
)

const (
	startLimit = 2 * time.Minute // recovery after a crash included
	closeLimit = 10 * time.Second
)

// Postgres is a server that this process owns. URL, Version and Dir may be called from any
// goroutine; Kill also while a Stop waits. The other calls come one after the other.
type Postgres struct {
	programs postgresPrograms
	folder   *Folder
	data     string
	url      string
	port     int
	password string

	mu   sync.Mutex
	proc *Process // the postmaster; nil while the server is down
}

// StartPostgres makes a new database cluster and starts it. The caller closes it.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	progress := o.Progress
	if progress == nil {
		progress = func(string) {}
	}
	f, err := NewFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	p := &Postgres{folder: f, data: filepath.Join(f.path, "data"), password: rand.Text()}
	if err := p.create(ctx, o, progress); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// portTries bounds how often a new port is tried when another process took ours.
const portTries = 5

func (p *Postgres) create(ctx context.Context, o PostgresOptions, progress func(string)) error {
	var err error
	if p.programs, err = findPostgres(ctx, o.Version, p.folder.path, progress); err != nil {
		return err
	}
	progress("starting Postgres " + p.programs.version)
	if err := p.initialize(ctx); err != nil {
		return err
	}
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		p.setAddress(port)
		if err = p.configure(o.Settings); err != nil {
			return err
		}
		if err = p.Start(ctx); err == nil || ctx.Err() != nil || try == portTries {
			return err
		}
		if !portTaken(p.port) {
			return err
		}
	}
}

// initialize runs initdb. The password goes by a file, which is removed afterwards.
func (p *Postgres) initialize(ctx context.Context) error {
	secret := filepath.Join(p.folder.path, "password")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return fmt.Errorf("write the password for initdb: %w", err)
	}
	if err := own(secret); err != nil {
		return err
	}
	if err := os.Mkdir(p.data, 0o700); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	if err := own(p.data); err != nil {
		return err
	}
	cmd := exec.Command(p.programs.path("initdb"), "-D", p.data, "-U", "postgres", "-E", "UTF8",
		"--locale=C", "-A", "scram-sha-256", "--pwfile="+secret, "--no-sync")
	log := filepath.Join(p.folder.path, "initdb.log")
	if err := p.run(ctx, cmd, log); err != nil {
		return fmt.Errorf("make a database cluster: %w%s", err, unknownUser())
	}
	if err := os.Remove(secret); err != nil {
		return fmt.Errorf("remove the password file: %w", err)
	}
	return nil
}

// run runs one of the server's programs to its end.
func (p *Postgres) run(ctx context.Context, cmd *exec.Cmd, log string) error {
	p.prepare(cmd)
	proc, err := StartProcess(cmd, log, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := proc.Wait(ctx); err != nil {
		killGroup(proc.PID())
		<-proc.done
		return err
	}
	if proc.err != nil {
		return fmt.Errorf("%s: %w; its last lines: %s", cmd.Path, proc.err, tail(log))
	}
	return nil
}

// prepare gives a command a place and, where we are root, another user.
func (p *Postgres) prepare(cmd *exec.Cmd) {
	cmd.Dir = p.folder.path
	// Nothing of the caller's PG* variables may reach the server.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// Start starts the server again on the same data and port, and returns when it answers. It
// is an error while the server runs.
func (p *Postgres) Start(ctx context.Context) error {
	if p.folder == nil {
		return fmt.Errorf("start Postgres: %w", ErrNotOurs)
	}
	if p.running() != nil {
		return errors.New("start Postgres: it is running")
	}
	cmd := exec.Command(p.programs.path("postgres"), "-D", p.data)
	p.prepare(cmd)
	// SIGQUIT is the immediate stop. A fast one could wait for ever for a replication client.
	proc, err := StartProcess(cmd, p.logPath(), syscall.SIGQUIT)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.proc = proc
	p.mu.Unlock()
	if err := proc.until(ctx, startLimit, p.ping); err != nil {
		return errors.Join(fmt.Errorf("start Postgres %s: %w", p.programs.version, err), p.Kill())
	}
	return nil
}

func (p *Postgres) logPath() string { return filepath.Join(p.folder.path, "postgres.log") }

// ping makes one connection and runs a query.
func (p *Postgres) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgconn.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	err = conn.Exec(ctx, "SELECT 1").Close()
	return errors.Join(err, conn.Close(ctx))
}

// Stop stops the server and returns when it has ended. When ctx ends first the server was
// asked all the same, and may still run.
func (p *Postgres) Stop(ctx context.Context, mode StopMode) error {
	if p.folder == nil {
		return fmt.Errorf("stop Postgres: %w", ErrNotOurs)
	}
	proc := p.running()
	if proc == nil {
		return nil
	}
	sig := map[StopMode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT, Smart: syscall.SIGTERM}[mode]
	if err := proc.Signal(sig); err != nil {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	if err := proc.Wait(ctx); err != nil {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	return nil
}

// Kill ends the server and all its processes with SIGKILL, as a crash of all of them. It
// returns when all have ended.
func (p *Postgres) Kill() error {
	if p.folder == nil {
		return fmt.Errorf("kill Postgres: %w", ErrNotOurs)
	}
	proc := p.running()
	if proc == nil {
		return nil
	}
	// Stopped, it makes no new children while they are listed and killed.
	if err := proc.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	workers := children(proc.PID())
	for _, pid := range workers {
		// It may have ended since.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of Postgres: %w", pid, err)
		}
	}
	if err := proc.Signal(syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	<-proc.done
	// A worker that is still ending holds the shared memory, and the next start refuses it.
	if err := waitEnded(workers, closeLimit); err != nil {
		return fmt.Errorf("kill Postgres: %w", err)
	}
	return nil
}

// Close stops the server at once and removes all it has. It may be called twice.
func (p *Postgres) Close() error {
	if p.folder == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	err := p.Stop(ctx, Immediate)
	if err != nil {
		err = p.Kill()
	}
	return errors.Join(err, p.removeSharedMemory(), p.folder.Remove())
}

// running returns the live postmaster, or nil.
func (p *Postgres) running() *Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil || !p.proc.Alive() {
		return nil
	}
	return p.proc
}

// URL is a connection string for the superuser on the database postgres. It holds the
// password.
func (p *Postgres) URL() string { return p.url }

func (p *Postgres) setAddress(port int) {
	p.port = port
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", p.password),
		Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/postgres", RawQuery: "sslmode=disable",
	}
	p.url = u.String()
}

// Version is the server's version, such as 15.18.
func (p *Postgres) Version() string { return p.programs.version }

// Origin says in a few words where the programs are from.
func (p *Postgres) Origin() string { return p.programs.origin }

// Dir is the folder that holds the server's data and log; empty where it isn't ours.
func (p *Postgres) Dir() string {
	if p.folder == nil {
		return ""
	}
	return p.folder.path
}

// PID is the process id of the postmaster, also after its end; 0 before the first start.
func (p *Postgres) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return 0
	}
	return p.proc.PID()
}
