package embed

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
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
// not durable, the handler runs once: Step runs f and records nothing.
// [task.Options].Limits.Journal limits the size of the journal: a step whose result exceeds it
// fails the task, whatever the handler returns.
//
// The result is recorded exactly once. F runs at least once: if the process dies before the result
// is stored, f runs again with the same [IdempotencyKey].
//
// A step is identified by its branch, its name and, among steps of the same name, by their order.
// Steps, sleeps and input requests of a branch follow one another: if two of them overlap, the
// second one fails, and so does the task. Functions that work at the same time are branches of
// their own; see [RunAll] and [Branch]. If a later run asks for a new step, but an earlier run has
// recorded something else at that place of the branch, Step fails before it runs f, and so does the
// task: give the tool another Version if its steps have changed. The handler must wait for its
// goroutines that run steps. After it has returned, Step fails, and the results of running steps
// are not recorded.
//
// The result is encoded as JSON and decoded again, in every run and in plain calls, so that all
// runs see the same value. Step fails before it runs f if values of type T cannot pass through
// JSON, such as functions, errors and other interfaces with methods. If f fails, or its result
// turns out to have no JSON form or to lose parts when it is decoded, because a type such as
// TextContent of the official SDK has MarshalJSON without UnmarshalJSON, Step returns a
// [*StepError], in every run. So does a step whose own ctx has ended meanwhile; if ctx had ended
// before, f does not run, and Step returns an error that wraps [context.DeadlineExceeded] or
// [context.Canceled], in every run. Only a step that the end of the task or of its process has
// interrupted is not recorded. F must not ask the client for input or run steps.
//
// With the option [Retry], a step whose function fails is repeated.
func Step[T any](ctx context.Context, name string, f func(ctx context.Context) (T, error), options ...StepOption) (T, error) {
	return rerun.Step(ctx, run(ctx), name, f, options...)
}

// StepOption is an option of [Step]: a [Retry].
type StepOption = rerun.StepOption

// Retry is a [StepOption] that repeats a step whose function fails. The attempts have the same
// [IdempotencyKey]. Each one is recorded, and so is the time of the next: a run after a restart of
// the server goes on counting, and a handler that pauses for long is parked, as in [Sleep]. The
// outcome of the step is that of its last attempt. The fields are those of server.Retry.
type Retry = rerun.Retry

// StepError is the failure of the function of a [Step]. Its field Step is the name of the step, and
// Text is the text of the function's error, which its method Error returns. Unwrap returns the
// [*jsonrpc.Error] in the chain of the function's error, if there is one. Other errors in the chain
// are lost, in every run: return what the handler must distinguish as part of the result.
type StepError = rerun.StepError

// Sleep waits until the time that f returns, for example time.Now().Add(24 * time.Hour). F is
// called once per call: the time is recorded, like the result of a [Step], and later runs of the
// handler wait for the rest of it. If ctx ends first, the sleep is given up: Sleep returns an error
// that wraps [context.DeadlineExceeded] or [context.Canceled], in every run. The deadline of ctx is
// recorded when the sleep begins, and later runs keep it.
//
// In a durable task, the wait survives a restart of the server. A handler that waits longer than
// [task.Options].Recovery.ParkAfter is parked: Sleep returns an error, the handler returns it, and
// is called again, from its top, when the sleep ends. From then on, no step, no sleep and no input
// request of the run begins: they fail with the same error. A task that expires first never wakes:
// for sleeps of more than an hour, set Default and Max in [task.Options].TTL. Names of sleeps
// follow the rules for names of steps.
func Sleep(ctx context.Context, name string, f func() time.Time) error {
	return run(ctx).Sleep(ctx, name, f)
}

// IdempotencyKey returns a key for the [Step] whose function has the context, or "" outside of a
// step. If the step of a durable task runs again, the key is the same. All other keys
// differ, also those of plain rerun. Pass the key to a system that performs a request with a key
// only once.
func IdempotencyKey(ctx context.Context) string { return rerun.IdempotencyKey(ctx) }

// Principal returns the principal of the call whose handler has the context: that of
// [Options].Principal or, for gosdk without it, UserID of the token info. It is the same in plain
// calls and in tasks, also after a restart, when the values of HTTP middleware are gone. It is ""
// if there is none, and outside of handlers of tools.
func Principal(ctx context.Context) string { return session.Principal(ctx) }

// RunAll calls functions concurrently, waits for all of them, and returns the first error in their
// order, or nil. Each function is a branch of the handler: its steps, sleeps and input requests
// follow one another, and are independent of those of the other functions. A function must use the
// context that it gets, which names the branch. While RunAll runs, the handler itself must not do
// such an operation. A panic of a function fails the call.
func RunAll(ctx context.Context, functions ...func(ctx context.Context) error) error {
	return run(ctx).RunAll(ctx, functions)
}

// Branch calls f with a context for a branch of the handler, and returns its error. A handler that
// starts goroutines itself, instead of with [RunAll], gives each of them that runs steps, sleeps or
// makes input requests a branch of its own. The name is one that no other branch below that of ctx
// has. F must use the context that it gets.
func Branch(ctx context.Context, name string, f func(ctx context.Context) error) error {
	return run(ctx).Branch(ctx, name, f)
}

// Compensate registers an undo: if the task fails, is cancelled or expires, f is called. Register
// an undo before the step that it undoes, because the task may end in between. So f must also
// succeed if that step has had no effect.
//
// The registered undos run if the handler returns an error or a result with isError, and after a
// cancellation or the expiry of the task. They run one after the other, the latest first, also
// those of different branches. None runs after a success, and none runs because the handler is
// parked or is interrupted by the end of the server.
//
// The undos of a durable task survive a restart of the server, and have ended before the task
// fails. If the task was cancelled or has expired, its requestor sees that at once; the handler
// then runs again from its top, to register the undos, and all operations that were not recorded
// fail with [task.ErrCancelled] or [task.ErrExpired]. Ten seconds after it has asked for all that
// is recorded, its context ends. If a run fails before it has registered all undos of earlier runs,
// the handler runs again, as an undo that fails does. The outcome of a task whose handler has
// failed is that of its first failure. F takes effect at least once; it has the same
// [IdempotencyKey] each time. An undo that fails is tried again, for a day, which begins anew in
// the next process, with pauses of up to five minutes. Then it is logged as an error with the id of
// the task, and the next one runs. The undos of other tasks run in the process of the task, for 30
// seconds together. After that, each of the others is tried once, for at most five seconds.
//
// Compensate is an operation of its branch, like a [Step]: later runs must register the same undos.
// If it fails, the undo is not registered, and the handler must not go on. It fails in a call that
// the SDK serves as a plain one: the end of such a call is not known. F must not ask the client for
// input or run steps.
func Compensate(ctx context.Context, name string, f func(ctx context.Context) error) error {
	r := rerun.FromContext(ctx)
	if r == nil {
		return fmt.Errorf("embed: compensation %q: the call is not a task", name)
	}
	return r.Compensate(ctx, name, f)
}

// Replaying reports whether the handler runs again and has not yet asked for everything that earlier
// runs have recorded. Code outside of a [Step] runs again meanwhile; use Replaying to log its lines
// once. It must not decide what the handler does. In a plain call, it returns false.
func Replaying(ctx context.Context) bool {
	r := rerun.FromContext(ctx)
	return r != nil && r.Replays()
}

// run returns the log of the handler that has the context. In a plain call, it records nothing.
func run(ctx context.Context) *rerun.Log {
	if r := rerun.FromContext(ctx); r != nil {
		return r
	}
	return rerun.New(ctx, rerun.Options{Package: "embed"})
}
