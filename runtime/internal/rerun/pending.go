package rerun

import (
	"context"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Promote turns a plain request whose handler is running into a task. Entries are the results that
// the handler has recorded, see [task.Request].Entries. Promote returns the Run of the task, or nil
// if the request stays a plain one.
type Promote = func(entries []task.Entry) *task.Run

// Pending is a plain request that may become a task while its handler is running. The middleware of
// package receiver makes it.
type Pending interface {
	// BeforeTask lets the request become a task. Just before it does, f is called once, in a
	// goroutine other than that of the handler. F calls promote while the handler cannot record
	// results. F does not call promote if the request must stay a plain one, for example because
	// its result will ask for input. A request whose handler does not call BeforeTask stays a plain
	// one.
	BeforeTask(f func(promote Promote))
	// Promote makes the request a task now. It returns nil once the request is a task. If the
	// request stays a plain one, Promote returns the reason, such as a [*task.LimitError]. While
	// the store fails, Promote waits for some time. It then returns [task.ErrUnavailable], as later
	// calls do at once, but the request still becomes a task if the store works before the handler
	// has returned. If ctx ends first, Promote returns its cause. It may be called concurrently and
	// repeatedly, but not by the function of BeforeTask.
	Promote(ctx context.Context) error
}

// PendingKey is the key of a Pending among the values of the context of its handler.
type PendingKey struct{}

// PendingFrom returns the request under ctx if it may become a task, or has become one.
func PendingFrom(ctx context.Context) (p Pending, ok bool) {
	p, ok = ctx.Value(PendingKey{}).(Pending)
	return p, ok
}
