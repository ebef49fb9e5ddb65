package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

// Case is an event that [Select] waits for: an [AnswerCase], a [SignalCase] or that of [After].
type Case = rerun.Case

// AnswerCase is the [Case] that [OnAnswer] returns. Once Select has returned it without an error,
// its field Value is what its function has returned.
type AnswerCase[T any] = rerun.AnswerCase[T]

// SignalCase is the [Case] that [OnSignal] returns. Once Select has returned it without an error,
// its field Value is the value of the signal.
type SignalCase[T any] = rerun.SignalCase[T]

// OnAnswer returns a case for an input request, which f makes with the context that it gets:
//
//	approved := server.OnAnswer(func(ctx context.Context) (bool, error) { return server.Confirm(ctx, c, "Pay?") })
//
// The case happens when f returns. F may make several input requests, one after the other. It must
// not run steps, sleep, or do any other operation: then it fails, and so does the call. F runs in
// each run of the handler, in a goroutine of its own, also if another case was the first. Then its
// context has ended, and what it does has no effect.
func OnAnswer[T any](f func(ctx context.Context) (T, error)) *AnswerCase[T] { return rerun.OnAnswer(f) }

// After returns a case that happens d after the first run has begun to wait. If d is not positive,
// that is at once.
func After(d time.Duration) Case { return rerun.After(d) }

// OnSignal returns a case for the signal with a name; see [Await].
func OnSignal[T any](name string) *SignalCase[T] { return rerun.OnSignal[T](name) }

// Select waits for the first of several events, and returns its case:
//
//	paid := server.OnSignal[Payment]("paid")
//	cancelled := server.OnAnswer(func(ctx context.Context) (bool, error) { return server.Confirm(ctx, c, "Cancel the order?") })
//	late := server.After(24 * time.Hour)
//	first, err := server.Select(ctx, c, "payment", paid, cancelled, late)
//	if err != nil {
//		return "", err
//	}
//	switch first {
//	case paid:
//		return ship(ctx, paid.Value)
//	…
//
// Which case was the first is recorded, and later runs get the same one. Then the others are
// withdrawn: Select returns after the client was told that their input requests are given up.
// Signals that it has not returned stay for later waits. If several events have happened before a
// run of the handler waits, an answer comes before a signal, and a signal before the time. If that
// leaves several, any of them may be the first. An input request is not sent if another event has
// happened before.
//
// If the function of the first case of OnAnswer has failed, for example because the client has
// responded with an error, Select returns the case with that error, in each run. It also returns
// the case with an error if the value of a signal cannot be decoded. All other errors come without
// a case. If the client cannot be asked for input, Select fails with the error of that function.
//
// If ctx ends first, that is the outcome: Select returns an error that wraps
// [context.DeadlineExceeded] or [context.Canceled], in every run, and all cases are withdrawn. The
// deadline of ctx and the times of timers are recorded when Select begins, and later runs keep
// them.
//
// Like an input request, Select fails with an [*InputRequiredError] if the handler is to run again:
// when the task is parked, or, in a plain call of a revision without sessions, if the client has to
// respond first. In such a call, the time of a timer or of a deadline is looked at when the client
// sends the next round: if it has passed, a response in that round still comes first.
//
// The name follows the rules for names of steps; see [Step]. Select is one operation of its branch.
// Its cases must be the same in each run. A case may be used again by a later Select.
func Select(ctx context.Context, c *Call, name string, cases ...Case) (Case, error) {
	return rerun.Select(ctx, c.recording(), name, cases...)
}

// Await waits for the signal with a name, and returns its value. Code of the server, such as the
// handler of a webhook, sends signals to a task with [Server.Signal]. Signals with one name are
// received in the order in which they were sent, and each one once. A signal that was sent before
// the handler waits for it is kept. Once received, it is recorded: later runs get the same value.
//
// Signals reach only tasks of tools with [Durable]. A call with the Tasks extension becomes a task
// before it waits. Other calls have no id to send signals to: Await fails at once, and so does
// [Select] with a case of [OnSignal]. The id of the task is that of [Call.Task]; in a call with the
// extension, it is known after the first [Step]. Before Await waits, hand the id over in a step to
// what will send the signal.
//
// If ctx ends first, Await returns an error that wraps [context.DeadlineExceeded] or
// [context.Canceled], in every run; see Select. It fails with an [*InputRequiredError] if the task
// is parked, and runs again when the signal or the deadline has come. It fails before it waits if
// values of type T cannot pass through JSON, as Step does.
func Await[T any](ctx context.Context, c *Call, name string) (T, error) {
	return rerun.Await[T](ctx, c.recording(), name)
}

// Signal sends a value to the handler of a task, which receives it with [Await] or [OnSignal]. The
// value is encoded as JSON. When Signal returns nil, the signal is stored, and the handler will
// receive it once, also after a crash, unless the task ends before. Any process of a fleet can send
// signals to any task. Clients see nothing of signals.
//
// Signal does not check on whose behalf it is called, so its caller must. The errors are those of
// [task.Manager.Signal]: [task.ErrNotFound] or [task.ErrExpired] if there is no such task, a
// [*task.MoveError] if it has ended, [task.ErrNoSignals] if its tool is not durable, and
// [task.ErrTooManySignals] if too many signals wait for the handler.
func (s *Server) Signal(ctx context.Context, taskID, name string, v any) error {
	m := s.Tasks()
	if m == nil {
		return errors.New("server: signal: the server has no tasks")
	}
	text, err := codec.Marshal(value.Of(&v))
	if err != nil {
		return fmt.Errorf("server: signal %q: value: %w", name, err)
	}
	return m.Signal(ctx, taskID, name, text)
}
