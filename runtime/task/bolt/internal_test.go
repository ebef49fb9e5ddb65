package bolt

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// lateContext closes a store when a write is about to be queued.
type lateContext struct {
	context.Context
	s *Store
}

func (c lateContext) Done() <-chan struct{} {
	close(c.s.closing)
	<-c.s.stopped
	return nil
}

func TestWriteWhileClosingReturns(t *testing.T) {
	for range 20 { // whether it gets into the queue is a matter of chance
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.db.Close()
			first := true
			err = s.submit(doneOnce{lateContext{t.Context(), s}, &first}, func(buckets) error { return nil }, func() {})
			if err != task.ErrClosed {
				t.Errorf("got %v", err)
			}
		})
	}
}

// doneOnce passes the first call of Done on.
type doneOnce struct {
	lateContext
	first *bool
}

func (c doneOnce) Done() <-chan struct{} {
	if *c.first {
		*c.first = false
		return c.lateContext.Done()
	}
	return nil
}

func TestFileSystemWithoutHardLinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	if err := initialize(path, func(string, string) error { return errors.ErrUnsupported }); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), task.Record{ID: "a", Status: mcp.TaskStatusWorking}); err != nil {
		t.Error(err)
	}
}
