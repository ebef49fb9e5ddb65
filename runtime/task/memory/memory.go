// Package memory provides a task store that keeps its records in memory. It is for tests, and for
// servers whose tasks need not survive a restart.
package memory

import (
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// New returns an empty store for one Manager at a time.
func New() task.Store { return memory.New() }
