package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/storetest"
)

// file is a store and the path of its file.
type file struct {
	*bolt.Store
	path string
}

func open(t *testing.T, path string) task.Store {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return file{s, path}
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Subject{
		Open:   func(t *testing.T) task.Store { return open(t, filepath.Join(t.TempDir(), "tasks")) },
		Reopen: func(t *testing.T, s task.Store) task.Store { return open(t, s.(file).path) },
	})
}
