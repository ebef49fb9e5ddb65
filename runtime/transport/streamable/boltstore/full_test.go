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
	var original syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &original); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ) // so that writes beyond the limit fail instead
	defer signal.Reset(syscall.SIGXFSZ)
	limit := func(size uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: original.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer limit(original.Cur)
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, boltstore.Options{})
	stored := uint64(0)
	add := func() error {
		err := s.Append(t.Context(), "s", "1", streamable.Event{Number: stored + 1, Text: make([]byte, 10<<10)})
		if err == nil {
			stored++
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
		if events != stored {
			t.Errorf("%d events are stored, want %d", events, stored)
		}
	}
	limit(256 << 10)
	// Some events fit after the first rejected one, in pages that earlier writes have freed.
	for rejected := 0; rejected < 3; {
		if add() == nil {
			rejected = 0
		} else if rejected++; s.Health() == nil {
			t.Error("Health returns nil although the disk is full")
		}
		if stored == 100 {
			t.Fatal("no write failed on a full disk")
		}
	}
	if stored < 5 {
		t.Fatalf("%d events were stored before the disk was full", stored)
	}
	check()
	limit(original.Cur)
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
