// Package storetest tests whether a store fulfils the contract of [task.Store]:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, storetest.Subject{Open: func(t *testing.T) task.Store { return memory.New() }})
//	}
package storetest

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/contracttest"
)

// Subject is the implementation under test.
type Subject struct {
	// Open returns an empty store and registers its cleanup with t.
	Open func(t *testing.T) task.Store
	// Reopen returns a store with the records that s has persisted. s is closed. Reopen is nil for
	// a store in memory.
	Reopen func(t *testing.T, s task.Store) task.Store
}

// Run tests the stores that subject opens. Each subtest runs in its own [testing/synctest] bubble:
// channels and timers of a store must be created in Open or later.
func Run(t *testing.T, subject Subject) {
	contracttest.Run(t, contracttest.Subject{Open: subject.Open, Reopen: subject.Reopen})
}
