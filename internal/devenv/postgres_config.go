package devenv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// configMark begins our part of postgresql.conf, which initdb wrote the rest of.
const configMark = "\n# cdc-relay\n"

// settings are what our servers need, and what keeps them small.
func settings(port int) map[string]string {
	return map[string]string{
		"port":                    strconv.Itoa(port),
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"wal_level":               "logical",
		// Each test has slots of its own; the default of 10 is used up soon.
		"max_wal_senders":       "50",
		"max_replication_slots": "50",
		"max_connections":       "200",
		"shared_buffers":        "64MB",
		// Not in /dev/shm, where a killed server would leave it.
		"dynamic_shared_memory_type": "mmap",
		"log_min_messages":           "warning",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
	}
}

// configure writes our part of postgresql.conf, in place of an earlier one.
func (p *Postgres) configure(extra map[string]string) error {
	path := filepath.Join(p.data, "postgresql.conf")
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configure Postgres: %w", err)
	}
	initial, _, _ := bytes.Cut(b, []byte(configMark))
	all := settings(p.port)
	maps.Copy(all, extra)
	var sb strings.Builder
	sb.Write(initial)
	sb.WriteString(configMark)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&sb, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	if err := os.WriteFile(path, []byte(sb.String()), 0o600); err != nil {
		return fmt.Errorf("configure Postgres: %w", err)
	}
	return nil
}

// portTaken says whether somebody listens on the port.
func portTaken(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return true
	}
	_ = l.Close()
	return false
}

// sharedMemoryLine is the line of postmaster.pid with the key and the id of the System V
// segment (miscadmin.h of Postgres, LOCK_FILE_LINE_SHMEM_KEY).
const sharedMemoryLine = 7

// removeSharedMemory removes the small System V segment of a server that was killed. One
// that stopped by itself has removed it and its postmaster.pid.
func (p *Postgres) removeSharedMemory() error {
	b, err := os.ReadFile(filepath.Join(p.data, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the shared memory of a killed Postgres: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		if n != sharedMemoryLine {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) != 2 {
			return nil
		}
		id, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil
		}
		// EINVAL and EIDRM: it is gone already.
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EIDRM) {
			return fmt.Errorf("remove the shared memory %d of a killed Postgres: %w", id, err)
		}
	}
	return nil
}
