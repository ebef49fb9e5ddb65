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

// closingContext closes a store when its Done method is called. At that moment, submit has checked
// that the store is open, and is about to queue a write.
type closingContext struct {
	context.Context
	s *Store
}

func (c closingContext) Done() <-chan struct{} {
	close(c.s.closing)
	<-c.s.stopped
	return nil
}

func TestWriteWhileClosingReturns(t *testing.T) {
	for range 20 { // the write is queued or not, at random
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.db.Close()
			first := true
			err = s.submit(doneOnce{closingContext{t.Context(), s}, &first}, func(buckets) error { return nil }, func() {})
			if err != task.ErrClosed {
				t.Errorf("got %v", err)
			}
		})
	}
}

// doneOnce is a closingContext that closes the store at the first call of Done only.
type doneOnce struct {
	closingContext
	first *bool
}

func (c doneOnce) Done() <-chan struct{} {
	if *c.first {
		*c.first = false
		return c.closingContext.Done()
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
