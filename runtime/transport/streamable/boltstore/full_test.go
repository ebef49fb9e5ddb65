//go:build unix

package boltstore_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// fullEnv is the environment variable of a child process with limited file sizes.
const fullEnv = "MCPWIRE_EVENTS_FULL"

// When the disk is full, writes fail and Health returns the error. Earlier events remain readable.
// Once there is space, the store works again.
func TestFullDisk(t *testing.T) {
	if os.Getenv(fullEnv) == "" { // the limit applies to a process, so a child runs the test
		cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
		cmd.Env = append(os.Environ(), fullEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	var usual syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &usual); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // so that writes beyond the limit fail instead
	defer signal.Reset(syscall.SIGXFSZ)
	limit := func(size uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: usual.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(usual.Cur)
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, boltstore.Options{})
	kept := uint64(0)
	add := func() error {
		err := s.Append(t.Context(), "s", "1", streamable.Event{Number: kept + 1, Text: make([]byte, 10<<10)})
		if err == nil {
			kept++
		}
		return err
	}
	check := func() {
		t.Helper()
		events := uint64(0)
		for {
			more, err := s.Events(t.Context(), "s", "1", events)
			if err != nil {
				t.Fatal(err)
			}
			if len(more) == 0 {
				break
			}
			events += uint64(len(more))
		}
		if events != kept {
			t.Errorf("%d events are stored, want %d", events, kept)
		}
	}
	limit(256 << 10)
	// Some events fit after the first rejected one, in pages that earlier writes have freed.
	for refused := 0; refused < 3; {
		if add() == nil {
			refused = 0
		} else if refused++; s.Health() == nil {
			t.Error("Health returns nil although the disk is full")
		}
		if kept == 100 {
			t.Fatal("no write failed on a full disk")
		}
	}
	if kept < 5 {
		t.Fatalf("%d events were stored before the disk was full", kept)
	}
	check()
	limit(usual.Cur)
	for range 20 {
		if err := add(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Health(); err != nil {
		t.Errorf("Health with free space: %v", err)
	}
	check()
	s.Close()
	s = open(t, path, boltstore.Options{})
	check()
}
