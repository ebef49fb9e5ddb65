package engine

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Reply sends the messages of one exchange to the peer. Its methods are safe for concurrent use.
type Reply interface {
	// ID returns the id of the request, or the zero ID for a notification.
	ID() jsonrpc.ID

	// Send sends a notification that belongs to the exchange. It waits while the peer does not read,
	// until ctx ends.
	Send(ctx context.Context, text []byte) error

	// Answer sends the last message and returns when the transport has accepted it, or when ctx ends.
	// failed is the error in it, or nil for a result. If only text is nil, Answer encodes failed, with
	// the codes of the revision. If both are, it ends the exchange without an answer, which may free a
	// path to the peer.
	Answer(ctx context.Context, text []byte, failed *jsonrpc.Error) error

	// Cancel ends the context of the handler with cause, or with [context.Canceled] if that is nil.
	// Only the first call has an effect.
	Cancel(cause error)
}

// Progress reports the progress of an exchange.
type Progress interface {
	Finish()  // sends a report that is held back, and ends
	Stop()    // drops it, and ends when a notification that is being written has been
	Silence() // drops it, and ends without waiting
}

// Reporter sends the progress of one operation, whose reports are P, to the peer, at most once in a
// while. It is safe for concurrent use.
type Reporter[P any] interface {
	Report(P) error
	Finish() // sends a report that is held back, and ends
	Stop()   // drops it, and ends
}

// Tracker receives the progress of one operation of the peer, whose reports are P. A session refers
// to it weakly: a Tracker that is no longer reachable needs no Close.
type Tracker[P any] interface {
	Token() jsonrpc.ID // the progress token; the zero token if it is unknown
	// Updates iterates over the reports until the Tracker is closed or ctx ends. A slow reader
	// misses reports, but not the last one. Several readers share the reports.
	Updates(ctx context.Context) iter.Seq[P]
	Close() // queued reports can still be read
}

// Exchange is one request or notification of the peer. Its exported fields, apart from Kept, do not
// change while it is in a Set.
type Exchange struct {
	Size    int    // what it holds, in bytes
	Session uint32 // number of the session in which it arrived; see transport.Reopener
	Input   bool   // its answer waits for the user or the model
	Kept    bool   // a cancellation has no effect; guarded by Set.mu
	over    bool   // it was answered, or must not be; guarded by Set.mu
	Reply   Reply
	Set     *Set // nil before Enter

	progress Progress     // nil if nothing was reported; guarded by Set.mu
	yields   atomic.Bool  // see Yield; written with Set.mu held
	asking   atomic.Int32 // requests to the peer whose answers the handler waits for

	sending sync.Mutex  // held while Notify writes
	ended   atomic.Bool // no notification may follow
}

// Notify sends a notification through the Reply. It does nothing after the exchange has ended, and
// without a Reply.
func (x *Exchange) Notify(ctx context.Context, text []byte) error {
	if x.Reply == nil {
		return nil
	}
	x.sending.Lock()
	defer x.sending.Unlock()
	if x.ended.Load() {
		return nil
	}
	return x.Reply.Send(ctx, text)
}

// Progress returns what reports the progress of the exchange, and calls begin to make it. It does
// not hold the lock of the Set meanwhile, because begin may decode a large message.
func (x *Exchange) Progress(begin func() Progress) Progress {
	if p := x.reported(); p != nil {
		return p
	}
	p := begin()
	x.Set.mu.Lock()
	defer x.Set.mu.Unlock()
	if x.progress == nil {
		if x.progress = p; x.over || x.ended.Load() {
			p.Silence()
		}
	}
	return x.progress
}

// reported returns what reports the progress of the exchange, or nil if nothing was reported.
func (x *Exchange) reported() Progress {
	x.Set.mu.Lock()
	defer x.Set.mu.Unlock()
	return x.progress
}

// Interrupt ends an exchange that [Set.Cancel] or [Set.Withdraw] has returned: nothing more is sent
// for it, and the context of its handler ends with an error that wraps [ErrCancelled]. A path to
// the peer is freed before, by run: later messages of the handler must not take the stream of the
// exchange, which the peer may have stopped reading. run may use another goroutine. It returns
// false if it does not call its argument.
func (x *Exchange) Interrupt(reason string, run func(func()) bool) {
	if progress := x.reported(); progress != nil {
		progress.Silence()
	}
	x.ended.Store(true)
	cause := ErrCancelled
	if reason != "" {
		cause = fmt.Errorf("%w: %s", ErrCancelled, reason)
	}
	release := func() {
		defer x.Reply.Cancel(cause)
		x.Reply.Answer(context.Background(), nil, nil)
	}
	if !run(release) {
		x.Reply.Cancel(cause)
	}
}

// Keep makes the exchange immune to cancellation. It returns false if the exchange must not be
// answered, because it was cancelled before.
func (x *Exchange) Keep() bool {
	x.Set.mu.Lock()
	defer x.Set.mu.Unlock()
	x.Kept = true
	return !x.over
}

// Yield makes a shutdown of the Set end the context of the exchange at once, with [Closing] as the
// cause, except while the handler waits for an answer of the peer.
func (x *Exchange) Yield() {
	x.Set.mu.Lock()
	defer x.Set.mu.Unlock()
	x.yields.Store(true)
	x.Set.yield(x)
}

// BeginAsking records that the handler waits for the answer to a request to the peer.
func (x *Exchange) BeginAsking() { x.asking.Add(1) }

// EndAsking ends what BeginAsking has recorded.
func (x *Exchange) EndAsking() {
	if x.asking.Add(-1) > 0 || !x.yields.Load() {
		return
	}
	x.Set.mu.Lock()
	defer x.Set.mu.Unlock()
	x.Set.yield(x)
}

// Finish sends the answer, unless the exchange was cancelled, and takes the exchange out of its Set
// when the transport has accepted it. failed is the error in it, or nil for a result. While answers
// of MaxBytes are pending in the transport, Finish sends a short error in place of the answer, and
// returns that error.
func (x *Exchange) Finish(ctx context.Context, text []byte, failed *jsonrpc.Error) (sent *jsonrpc.Error) {
	size := len(text)
	silent, dropped, pending := x.Set.settle(x, size)
	x.Reply.Cancel(nil)
	if dropped {
		failed = Overloaded("the answer was dropped, answers of %d bytes are pending", pending)
		text, size = nil, 0
	}
	if !silent {
		x.Reply.Answer(ctx, text, failed)
	}
	x.Set.leave(x, silent, size)
	return failed
}

// End takes a notification, whose handler has returned, out of its Set. Nothing is sent for it
// afterwards.
func (x *Exchange) End() {
	silent, _, _ := x.Set.settle(x, 0)
	x.Set.leave(x, silent, 0)
}
