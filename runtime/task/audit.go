package task

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// The kinds of events (MCP tasks, "Audit and Logging").
const (
	EventCreated   = "created"
	EventRecovered = "recovered" // continued here after a restart, or as the task of another member
	EventMoved     = "moved"     // its status changed
	EventRead      = "read"      // its state, its outcome or a page of tasks was read
	EventRefused   = "refused"   // a call failed
	EventExpired   = "expired"   // dropped because its lifetime has passed
)

// Event describes a change of a task or a call about tasks.
type Event struct {
	Kind      string
	Principal string         // principal of the caller or of the task
	Task      string         // task id, if any; truncated to 128 bytes in an EventRefused
	Method    string         // method of the call, or of the request that created the task
	From, To  mcp.TaskStatus // of an EventMoved; in other events about a task, To is its status
	Err       error          // error of an EventRefused
	// Foreign is set in an EventRefused for a task of another principal.
	Foreign bool
}

// Stats holds counters since the Manager was created, and current levels.
type Stats struct {
	Created, Completed, Failed, Cancelled, Expired uint64
	// Recovered counts the unfinished tasks that this process continues: those that [New] has found
	// after a restart, and, in a fleet, those that this member has taken over or that a member
	// without the tool, such as a front end, has left to it.
	Recovered uint64
	// TakenOver counts the tasks that this member of a fleet has taken over from other members that
	// have died or left, or because of an operator. It includes those that failed because their work
	// cannot run again. Lapsed counts how often the lease of this member has ended.
	TakenOver, Lapsed uint64
	// Reads counts successful calls of tasks/get, tasks/result and tasks/list. Refused counts
	// failed calls of all methods. Foreign counts the refused calls about a task of another
	// principal.
	Reads, Refused, Foreign uint64

	Running int // tasks whose work is running in this process; not those whose outcome is being published
	Queued  int // tasks whose work waits for room; see Options.Limits.Running and Options.Limits.Tool
	Parked  int // tasks whose work is parked; see Options.Recovery.ParkAfter
	Waiting int // calls blocked in tasks/result
	// Unstored is the number of outcomes that wait to be stored because the store has failed. The
	// Manager retries them.
	Unstored int
}

// Stats returns the current counters. They are read one after another, so their sums may be
// slightly inconsistent. A change of a task is counted after it is stored, so a caller can read an
// outcome before it is counted.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	running, parked := len(m.runs)-m.resting, m.resting
	m.mu.Unlock()
	running = max(0, running-int(m.returned.Load()))
	queued := min(m.scheduler.queued(), running)
	running -= queued
	a := &m.audit
	return Stats{
		Created: a.nCreated.Load(), Completed: a.nCompleted.Load(), Failed: a.nFailed.Load(), Cancelled: a.nCancelled.Load(),
		Expired: a.nExpired.Load(), Recovered: a.nRecovered.Load(), TakenOver: a.nTakenOver.Load(), Lapsed: a.nLapsed.Load(),
		Reads: a.nRead.Load(), Refused: a.nRefused.Load(), Foreign: a.nForeign.Load(),
		Running: running, Queued: queued, Parked: parked, Waiting: int(a.waiting.Load()), Unstored: int(m.unstored.Load()),
	}
}

// audit counts events and sends them to the hook and the log.
type audit struct {
	hook func(Event)
	log  *slog.Logger

	nCreated, nCompleted, nFailed, nCancelled, nExpired, nRecovered, nTakenOver, nLapsed, nRead, nRefused, nForeign atomic.Uint64
	waiting                                                                                                         atomic.Int64
}

// emit sends an event to the hook and the log.
func (a *audit) emit(level slog.Level, e Event) {
	if a.hook != nil {
		if err := a.callHook(e); err != nil {
			boundary.Report(a.log, "Options.Hooks.Audit panicked", err, "task", e.Task)
		}
	}
	ctx := context.Background()
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("principal", e.Principal), slog.String("method", e.Method)}
	if e.Task != "" {
		attrs = append(attrs, slog.String("task", e.Task))
	}
	if e.From != "" {
		attrs = append(attrs, slog.String("from", string(e.From)))
	}
	if e.To != "" {
		attrs = append(attrs, slog.String("status", string(e.To)))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", boundary.ErrorText(e.Err)), slog.Bool("foreign", e.Foreign))
	}
	message := "task " + string(e.Kind)
	if e.Kind == EventRefused {
		message = "task call refused"
	}
	a.log.LogAttrs(ctx, level, message, attrs...)
}

func (a *audit) callHook(e Event) (err error) {
	defer boundary.Catch(&err)
	a.hook(e)
	return nil
}

func (a *audit) created(r *Record) {
	a.nCreated.Add(1)
	a.emit(slog.LevelInfo, Event{Kind: EventCreated, Principal: r.Owner, Task: r.ID, Method: r.Method, To: r.Status})
}

func (a *audit) recovered(r *Record) {
	a.nRecovered.Add(1)
	a.emit(slog.LevelInfo, Event{Kind: EventRecovered, Principal: r.Owner, Task: r.ID, Method: r.Method, To: r.Status})
}

func (a *audit) moved(from mcp.TaskStatus, r *Record) {
	to := r.shown()
	switch to {
	case mcp.TaskStatusCompleted:
		a.nCompleted.Add(1)
	case mcp.TaskStatusFailed:
		a.nFailed.Add(1)
	case mcp.TaskStatusCancelled:
		a.nCancelled.Add(1)
	}
	a.emit(slog.LevelInfo, Event{Kind: EventMoved, Principal: r.Owner, Task: r.ID, Method: r.Method, From: from, To: to})
}

func (a *audit) read(r *Record, method string) {
	a.nRead.Add(1)
	a.emit(slog.LevelDebug, Event{Kind: EventRead, Principal: r.Owner, Task: r.ID, Method: method, To: r.Status})
}

func (a *audit) listed(principal string) {
	a.nRead.Add(1)
	a.emit(slog.LevelDebug, Event{Kind: EventRead, Principal: principal, Method: mcp.MethodTasksList})
}

func (a *audit) expired(r *Record) {
	a.nExpired.Add(1)
	a.emit(slog.LevelInfo, Event{Kind: EventExpired, Principal: r.Owner, Task: r.ID, Method: r.Method, To: r.Status})
}

// maxAuditedID is the maximum length in bytes of the task id in an EventRefused. Task ids are
// shorter.
const maxAuditedID = 128

func (a *audit) refused(principal, id, method string, err error) {
	a.nRefused.Add(1)
	foreign := errors.Is(err, errForeign)
	if foreign {
		a.nForeign.Add(1)
	}
	// The peer chooses this id, so it may be long.
	a.emit(slog.LevelInfo, Event{Kind: EventRefused, Principal: principal, Task: boundary.Text(id, maxAuditedID), Method: method, Err: err, Foreign: foreign})
}
