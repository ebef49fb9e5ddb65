package embed

import (
	"context"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/calls"
)

// Step runs f and records its result in the journal of the task before it returns. Later runs of
// the handler get the recorded result, and do not run f. The handler of a durable task runs again,
// from its top, after a restart of the server and after it was parked. Use a step for an effect
// that must not be repeated, such as a charge, a write or a message, and for a value that may
// differ between runs, such as the time, a random value or a row of a database.
//
//	order, err := embed.Step(ctx, "order", func(ctx context.Context) (Order, error) {
//		return shop.Order(ctx, embed.IdempotencyKey(ctx), item)
//	})
//
// Ctx is the context of the handler, or one derived from it. In a plain call, and in a task that is
// not durable, the handler runs once: Step runs f and records nothing. [task.Config].MaxJournal
// limits the size of the journal.
//
// The result is recorded exactly once. F runs at least once: if the process dies before the result
// is stored, f runs again with the same [IdempotencyKey].
//
// A step is identified by its name and, among steps of the same name, by their order. Steps that
// run at the same time need different names: otherwise the second step fails, and so does the task.
// The handler must wait for its goroutines that run steps. After it has returned, Step fails, and
// the results of running steps are not recorded.
//
// The result is encoded as JSON and decoded again, in every run and in plain calls, so that all
// runs see the same value. If f fails, Step returns a [*StepError], in every run; if ctx has ended,
// the failure is not recorded. F must not ask the client for input or run steps.
func Step[T any](ctx context.Context, name string, f func(ctx context.Context) (T, error)) (T, error) {
	return calls.Step(ctx, run(ctx), name, f)
}

// StepError is the failure of the function of a [Step]. Its field Step is the name of the step, and
// Text is the text of the function's error, which its method Error returns. Unwrap returns the
// [*jsonrpc.Error] in the chain of the function's error, if there is one. Other errors in the chain
// are lost, in every run: return what the handler must distinguish as part of the result.
type StepError = calls.StepError

// Sleep waits until the time that f returns, for example time.Now().Add(24 * time.Hour). F is
// called once per call: the time is recorded, like the result of a [Step], and later runs of the
// handler wait for the rest of it. If ctx ends first, Sleep returns its cause.
//
// In a durable task, the wait survives a restart of the server. A handler that waits longer than
// [task.Config].ParkAfter is parked, unless its ctx has a deadline: Sleep returns an error, the
// handler returns it, and is called again, from its top, when the sleep ends. A task that expires
// first never wakes: for sleeps of more than an hour, set DefaultTTL and MaxTTL of [task.Config].
// Names of sleeps follow the rules for names of steps.
func Sleep(ctx context.Context, name string, f func() time.Time) error {
	return run(ctx).Sleep(ctx, name, f)
}

// IdempotencyKey returns a key for the [Step] whose function has the context, or "" outside of a
// step. If the step of a durable task runs again, the key is the same. All other keys
// differ, also those of plain calls. Pass the key to a system that performs a request with a key
// only once.
func IdempotencyKey(ctx context.Context) string { return calls.IdempotencyKey(ctx) }

// run returns the run of the handler that has the context. In a plain call, the run records
// nothing.
func run(ctx context.Context) *calls.Run {
	if r := calls.FromContext(ctx); r != nil {
		return r
	}
	return calls.New(ctx, calls.Options{Package: "embed"})
}
