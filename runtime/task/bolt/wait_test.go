package bolt_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

func TestStoreWaitsForFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	holder, err := bolt.OpenOrWait(path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.Create(t.Context(), task.Record{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	waiter, err := bolt.OpenOrWait(path)
	if err != nil {
		t.Fatal(err)
	}
	defer waiter.Close()
	for range 2 {
		_, acquireErr := waiter.Acquire()
		_, getErr := waiter.Get(t.Context(), "one")
		for _, err := range []error{acquireErr, getErr, waiter.Health()} {
			if !errors.Is(err, task.ErrLocked) {
				t.Errorf("got %v, want ErrLocked", err)
			}
		}
	}
	if _, err := holder.Get(t.Context(), "one"); err != nil {
		t.Errorf("get of the holder: %v", err)
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	release, err := waiter.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := waiter.Acquire(); !errors.Is(err, task.ErrInUse) {
		t.Errorf("second Acquire: got %v, want ErrInUse", err)
	}
	if _, err := waiter.Get(t.Context(), "one"); err != nil || waiter.Health() != nil {
		t.Errorf("get: %v, health: %v", err, waiter.Health())
	}
	if _, err := waiter.Create(t.Context(), task.Record{ID: "two"}); err != nil {
		t.Error(err)
	}
	if _, err := bolt.Open(path); !errors.Is(err, task.ErrLocked) {
		t.Errorf("open: got %v, want ErrLocked", err)
	}
}

func TestWaitingStoreIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	holder, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	waiter, err := bolt.OpenOrWait(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(waiter.Close(), holder.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := waiter.Acquire(); err != task.ErrClosed {
		t.Errorf("got %v, want ErrClosed", err)
	}
	again, err := bolt.Open(path)
	if err != nil {
		t.Fatalf("the closed store holds the file: %v", err)
	}
	again.Close()
}
