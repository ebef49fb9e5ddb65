package memory_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/contracttest"
)

func TestStore(t *testing.T) {
	contracttest.Run(t, contracttest.Subject{Open: func(t *testing.T) task.Store { return memory.New() }})
}

func TestFleet(t *testing.T) {
	contracttest.RunFleet(t, contracttest.Fleet{
		Open: func(t *testing.T, n int) (stores []task.Store) {
			f := memory.NewFleet()
			for range n {
				stores = append(stores, f.Store())
			}
			return stores
		},
		Cut: func(t *testing.T, s task.Store) (heal func()) {
			s.(*memory.FleetStore).Cut()
			return s.(*memory.FleetStore).Heal
		},
		InMemory: true,
	})
}
