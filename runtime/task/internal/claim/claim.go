// Package claim ensures that at most one Manager uses a store at a time.
package claim

import (
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Claim implements [task.Exclusive] for stores that only one process uses at a time. The zero value
// is not acquired. It may be used concurrently.
type Claim struct{ taken atomic.Bool }

// Acquire acquires the claim until release is called. It fails with [task.ErrInUse] if the claim is
// already acquired.
func (c *Claim) Acquire() (release func(), err error) {
	if !c.taken.CompareAndSwap(false, true) {
		return nil, task.ErrInUse
	}
	return sync.OnceFunc(func() { c.taken.Store(false) }), nil
}
