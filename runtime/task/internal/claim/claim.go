// Package claim lets one Manager at a time use a store.
package claim

import (
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Claim implements [task.Exclusive] for stores of one process. The zero value is free.
type Claim struct{ taken atomic.Bool }

// Acquire fails with [task.ErrInUse] from a call that succeeds until its release was called.
func (c *Claim) Acquire() (release func(), err error) {
	if !c.taken.CompareAndSwap(false, true) {
		return nil, task.ErrInUse
	}
	return sync.OnceFunc(func() { c.taken.Store(false) }), nil
}
