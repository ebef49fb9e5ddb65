package session

import (
	"context"
	"fmt"
	"sync"
)

// lifetime holds the context of a session, and the goroutines that end with it.
type lifetime struct {
	ctx    context.Context // ends with the session, with the reason as its cause
	cancel context.CancelCauseFunc
	work   sync.WaitGroup // the goroutines of the session, handlers included
	done   chan struct{}  // closed when all goroutines have returned and the connection is closed

	mu      sync.Mutex
	stopped bool
	after   []func() // called when done is closed
}

func newLifetime() *lifetime {
	l := &lifetime{done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	return l
}

// over reports whether the session has ended.
func (l *lifetime) over() bool { return l.ctx.Err() != nil }

// enter delays done until exit is called. It returns false if the session has ended. A goroutine of
// the session may use work directly: it has entered already.
func (l *lifetime) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.work.Add(1)
	return true
}

func (l *lifetime) exit() { l.work.Done() }

// spawn runs f in a goroutine of the session. It returns false, and does not run f, if the session
// has ended.
func (l *lifetime) spawn(f func()) bool {
	if !l.enter() {
		return false
	}
	go func() { // ends when f returns
		defer l.exit()
		f()
	}()
	return true
}

// stop ends the session with cause. It returns false if the session has ended before.
func (l *lifetime) stop(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stopped {
		return false
	}
	l.stopped = true
	l.cancel(cause)
	return true
}

// finish waits for the goroutines of the session, closes done, and passes each function of
// afterDone to call.
func (l *lifetime) finish(call func(func())) {
	l.work.Wait()
	close(l.done)
	l.mu.Lock()
	after := l.after
	l.after = nil
	l.mu.Unlock()
	for _, f := range after {
		call(f)
	}
}

// afterDone registers f to be called by finish. It returns false if done is closed already.
func (l *lifetime) afterDone(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return false
	default:
		l.after = append(l.after, f)
		return true
	}
}

// err returns ErrClosed, wrapped with the cause of the session's end.
func (l *lifetime) err() error {
	if cause := context.Cause(l.ctx); cause != nil && cause != ErrClosed {
		return fmt.Errorf("%w: %w", ErrClosed, cause)
	}
	return ErrClosed
}
