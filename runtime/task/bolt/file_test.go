package bolt_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// The file is open from the start of a Manager until its end, and the next one continues.
func TestFileIsOpenWhileManagerUsesIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	s := bolt.File(path)
	if _, err := s.Get(t.Context(), "x"); !errors.Is(err, task.ErrClosed) {
		t.Errorf("before: %v", err)
	}
	for range 2 {
		m, err := task.New(t.Context(), task.Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("during: %v", err)
		}
		if _, err := s.Acquire(); !errors.Is(err, task.ErrInUse) {
			t.Errorf("second Manager: %v", err)
		}
		if err := m.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, task.ErrClosed) {
			t.Errorf("after: %v", err)
		}
	}
	opened, err := bolt.Open(path) // the lock is free
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
}

// A second process has the file once the first one has closed it.
func TestFileWaitsForOtherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks.db")
	holder, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := holder.Create(t.Context(), task.Record{ID: "one"}); err != nil {
		t.Fatal(err)
	}
	waiter := bolt.File(path)
	if _, err := waiter.Acquire(); !errors.Is(err, task.ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	release, err := waiter.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
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

func TestFileReportsErrorToManager(t *testing.T) {
	s := bolt.File(filepath.Join(t.TempDir(), "missing", "tasks.db"))
	if _, err := task.New(t.Context(), task.Options{Store: s}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
