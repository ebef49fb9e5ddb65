package receiver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// BeforeTask implements [rerun.Pending].
func (c *call) BeforeTask(f func(promote rerun.Promote)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = f
}

// Promote implements [rerun.Pending]. While the store fails, it waits for ten seconds.
func (c *call) Promote(ctx context.Context) error {
	c.mu.Lock()
	switch {
	case c.settled || c.refusal != nil:
		defer c.mu.Unlock()
		return c.refusal
	case c.before == nil:
		c.mu.Unlock()
		return errNoTask
	}
	if c.decided == nil {
		c.decided = make(chan struct{})
	}
	decided := c.decided
	c.timer.Reset(0)
	c.mu.Unlock()
	select {
	case <-decided:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.refusal
	case <-c.done:
		return errReturned
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var (
	errNoTask   = errors.New("receiver: the request cannot become a task")
	errReturned = errors.New("receiver: the handler of the request has returned")
)

// call is a plain request that may become a task while its handler is running. It is the context of
// the handler.
type call struct {
	lazyctx.Cancellable
	values context.Context              // of the request
	work   atomic.Pointer[promotedWork] // nil for a plain request

	m       *task.Manager
	req     *session.Request
	support Support
	leave   func() bool // detaches the call from the context of the request
	doubt   doubt       // of an attempt to make the request a task; nil for none

	done   chan struct{} // closed when the handler has returned
	result codec.Encoder
	err    error

	mu      sync.Mutex
	before  func(rerun.Promote) // see rerun.Pending
	timer   *time.Timer         // promotes the request when it fires
	settled bool                // the request has become a task, or stays a plain one
	refusal error               // why it is a plain one; nil if it is a task, or may become one soon
	decided chan struct{}       // closed once settled or refusal is set; nil until Promote waits for it
	failing time.Time           // since when attempts have failed because of the store; zero if none has
	pause   time.Duration       // before the next attempt after such a failure
}

// doubt is a [task.ErrDoubtful]. Settled is closed once the task will not run.
type doubt interface {
	error
	Settled() <-chan struct{}
}

// Limits of the attempts to make a request a task while the store fails.
const (
	firstPause = 100 * time.Millisecond // doubles with each attempt
	maxPause   = 5 * time.Second
	patience   = 10 * time.Second // of Promote
)

// promotedWork is the work of a request that has become a task.
type promotedWork struct {
	ctx  context.Context
	run  *task.Run
	peer taskPeer
}

// Value implements [context.Context].
func (c *call) Value(key any) any {
	if key == (rerun.PendingKey{}) {
		return c
	}
	if v := c.Cancellable.Value(key); v != nil {
		return v
	}
	if w := c.work.Load(); w != nil {
		return w.ctx.Value(key)
	}
	return c.values.Value(key)
}

// Err implements [context.Context]. Once the context of the task has ended, it does not wait for
// the goroutine that ends this one, so that the handler begins nothing else after its task has
// ended.
func (c *call) Err() error {
	if w := c.work.Load(); w != nil && w.ctx.Err() != nil {
		c.Cancel(context.Cause(w.ctx))
	}
	return c.Cancellable.Err()
}

// serveCall serves a request that becomes a task if it has not finished after a time.
func serveCall(ctx context.Context, m *task.Manager, req *session.Request, support Support, next session.Handler) (codec.Encoder, error) {
	peer, ok := session.PeerFrom(ctx)
	if !ok {
		return next(ctx, req)
	}
	// Once the request is a task, it must not hold its message, which may be much larger than the
	// params. Then it is too late for this: the handler uses the request.
	req.Internals(boundary.Caller{}).Detach(bytes.Clone(req.Params))
	c := &call{values: ctx, m: m, req: req, support: support, done: make(chan struct{})}
	c.stayWithRequest()
	defer func() { c.leave() }()
	after := support.After
	if after == 0 {
		after = defaultAfter
	}
	c.timer = time.NewTimer(after)
	defer c.timer.Stop()
	go c.run(session.WithPeer(c, callPeer{c, peer}), next) // ends when the handler returns
	for {
		select {
		case <-c.done:
			return c.result, c.err
		case <-c.timer.C:
		}
		switch created, again := c.promote(after); {
		case created != nil:
			return created, nil
		case !again:
			<-c.done
			return c.result, c.err
		}
	}
}

// stayWithRequest ends the context of the handler with that of the request, until leave is called.
func (c *call) stayWithRequest() {
	c.leave = context.AfterFunc(c.values, func() { c.Cancel(context.Cause(c.values)) })
}

// run calls the handler.
func (c *call) run(ctx context.Context, next session.Handler) {
	c.err = boundary.ErrGoexit // unless the handler returns
	defer c.Cancel(nil)
	defer close(c.done)
	defer boundary.Catch(&c.err)
	c.result, c.err = next(ctx, c.req)
}

// promote turns the request into a task. If created is nil, the request is still a plain one. If
// again is true, the timer fires again: after the given time if the handler has not called
// BeforeTask yet, and after a pause if the store fails.
func (c *call) promote(after time.Duration) (created codec.Encoder, again bool) {
	c.mu.Lock()
	before := c.before
	if before == nil {
		c.timer.Reset(after)
	}
	c.mu.Unlock()
	if before == nil {
		return nil, true
	}
	if c.doubtful() { // a second task could do the same, if the process ends now
		return nil, !c.settle(c.doubt)
	}
	refusal := errNoTask
	defer func() { again = !c.settle(refusal) }()
	before(func(entries []task.Entry) *task.Run {
		if c.hasReturned() {
			refusal = errReturned
			return nil
		}
		if !c.leave() { // the request was cancelled
			refusal = context.Cause(c.values)
			return nil
		}
		q := extensionRequest(c.values, c.req, c.support)
		q.Entries, q.Begun = entries, true
		started := make(chan *promotedWork, 1)
		q.Work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			w := &promotedWork{ctx, run, taskPeer{run}}
			started <- w
			stop := context.AfterFunc(ctx, func() { c.Cancel(context.Cause(ctx)) })
			defer stop()
			<-c.done
			return c.result, c.err
		}
		t, err := c.m.Create(c.values, q)
		if err != nil { // the principal has too many tasks, or the store fails
			c.stayWithRequest()
			c.doubt, _ = errors.AsType[doubt](err)
			refusal = err
			return nil
		}
		w := <-started
		c.work.Store(w)
		if !c.req.Internals(boundary.Caller{}).Keep() { // the request was cancelled in the meantime, and gets no response
			if _, err := c.m.Cancel(context.WithoutCancel(c.values), q.Principal, t.TaskID, nil); err != nil {
				c.Cancel(task.ErrCancelled) // the outcome of the task does not matter: no requestor knows it
			}
		}
		created, refusal = &extensionTask{task: t, resultType: tasks.ResultTask}, nil
		return w.run
	})
	return created, false
}

// doubtful reports whether the store may have the task of an earlier attempt, which would run after a
// restart. Only promote uses it and doubt.
func (c *call) doubtful() bool {
	if c.doubt == nil {
		return false
	}
	select {
	case <-c.doubt.Settled():
		c.doubt = nil
		return false
	default:
		return true
	}
}

// settle records the outcome of a promotion, and ends the calls of Pending.Promote. It returns
// false if the store fails: then it starts the timer for the next attempt.
func (c *call) settle(refusal error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled = !errors.Is(refusal, task.ErrUnavailable); !c.settled {
		if c.failing.IsZero() {
			c.failing, c.pause = time.Now(), firstPause
		}
		c.timer.Reset(c.pause)
		c.pause = min(2*c.pause, maxPause)
		if time.Since(c.failing) < patience {
			return false
		}
	}
	if c.refusal = refusal; c.decided != nil {
		close(c.decided)
		c.decided = nil
	}
	return c.settled
}

func (c *call) hasReturned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// callPeer is the peer of the handler of a call: that of the request, or that of the task.
type callPeer struct {
	c     *call
	plain session.Peer
}

// peer returns the current peer.
func (p callPeer) peer() session.Peer {
	if w := p.c.work.Load(); w != nil {
		return w.peer
	}
	return p.plain
}

func (p callPeer) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	return p.peer().Call(ctx, method, params)
}

func (p callPeer) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return p.peer().Notify(ctx, method, params)
}

func (p callPeer) Report(r session.Progress) error { return p.peer().Report(r) }

// Session implements the method of taskPeer.
func (p callPeer) Session() *session.Session {
	if w := p.c.work.Load(); w != nil {
		return w.peer.Session()
	}
	return nil
}
