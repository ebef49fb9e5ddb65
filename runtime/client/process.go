package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// process is a connection to a child process that is started again when it ends by itself. It is a
// [transport.Reopener] whose sessions are the processes.
type process struct {
	command stdio.Command
	closed  chan struct{} // closed by Close

	mu       sync.Mutex
	restarts bool // otherwise the connection ends with the process
	over     bool // Close was called
	current  stdio.Process
	number   uint32        // of the current process
	lost     bool          // the current process has ended, and Read has returned that
	replaced chan struct{} // closed by Reopen; nil unless lost is set
	started  time.Time
	failures int // processes in a row that ended soon
}

// Limits of the restarts of a process.
const (
	maxFailures  = 5
	soon         = 10 * time.Second // after the start
	restartDelay = 100 * time.Millisecond
)

func startProcess(command stdio.Command) (*process, error) {
	p, err := stdio.Start(command)
	if err != nil {
		return nil, err
	}
	return &process{command: command, closed: make(chan struct{}), current: p, number: 1, started: time.Now()}, nil
}

// restart makes later ends of the process lost sessions.
func (p *process) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarts = true
}

// Read implements [transport.Conn].
func (p *process) Read() (transport.Message, error) {
	for {
		p.mu.Lock()
		current, number, replaced := p.current, p.number, p.replaced
		p.mu.Unlock()
		if replaced != nil {
			select {
			case <-replaced:
				continue
			case <-p.closed:
				return transport.Message{}, transport.ErrClosed
			}
		}
		m, err := current.Read()
		if m.Session = number; err == nil || staysOpen(err) || !p.lose(number) {
			return m, err
		}
		return transport.Message{}, &transport.SessionLostError{Session: number, Err: err, Unanswered: true}
	}
}

// staysOpen reports whether a connection is open after it has returned err.
func staysOpen(err error) bool {
	_, message := errors.AsType[*transport.MessageError](err)
	_, delivery := errors.AsType[*transport.DeliveryError](err)
	return message || delivery
}

// lose records that a process has ended. It returns false if it is not to be started again.
func (p *process) lose(number uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.restarts || p.over || p.number != number {
		return false
	}
	p.lost, p.replaced = true, make(chan struct{})
	return true
}

// Write implements [transport.Conn].
func (p *process) Write(ctx context.Context, m transport.Message) error {
	p.mu.Lock()
	current, number, lost, restarts := p.current, p.number, p.lost, p.restarts
	p.mu.Unlock()
	if m.Session != 0 && m.Session != number {
		return &transport.SessionLostError{Session: m.Session} // the current one may be open
	}
	if lost {
		return &transport.SessionLostError{Session: number}
	}
	err := current.Write(ctx, m)
	if err == nil || ctx.Err() != nil || staysOpen(err) || !restarts {
		return err
	}
	return &transport.SessionLostError{Session: number, Err: err}
}

// Reopen implements [transport.Reopener]. It starts the process again.
func (p *process) Reopen(ctx context.Context) (session uint32, err error) {
	p.mu.Lock()
	last, restarts := p.current, p.restarts
	if p.failures++; time.Since(p.started) >= soon {
		p.failures = 1
	}
	failures := p.failures
	p.mu.Unlock()
	switch {
	case !restarts:
		return 0, errors.ErrUnsupported
	case failures > maxFailures:
		return 0, fmt.Errorf("client: server has ended %d times in a row", failures)
	}
	last.Close()
	timer := time.NewTimer(restartDelay << (failures - 1))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.closed:
		return 0, transport.ErrClosed
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	next, err := stdio.Start(p.command)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		go next.Close() // ends with the process
		return 0, transport.ErrClosed
	}
	if p.replaced == nil { // the process was alive, but did not respond
		p.replaced = make(chan struct{})
	}
	close(p.replaced)
	p.current, p.lost, p.replaced, p.started = next, false, nil, time.Now()
	p.number++
	return p.number, nil
}

// Close implements [transport.Conn].
func (p *process) Close() error {
	p.mu.Lock()
	current := p.current
	if !p.over {
		p.over = true
		close(p.closed)
	}
	p.mu.Unlock()
	return current.Close()
}
