package memory_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Subject{Open: func(t *testing.T) task.Store { return memory.New() }})
}
