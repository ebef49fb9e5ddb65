package task

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// EventKind is what has happened.
type EventKind string

// The kinds of events (MCP tasks, "Audit and Logging").
const (
	EventCreated   EventKind = "created"
	EventRecovered EventKind = "recovered" // its work goes on, or again, after a restart
	EventMoved     EventKind = "moved"     // from one status to another
	EventRead      EventKind = "read"      // its state, its outcome, or a page of a list
	EventRefused   EventKind = "refused"   // a call that fails
	EventExpired   EventKind = "expired"   // dropped since its time has passed
)

// Event is something that happened to a task, or to a call about one.
type Event struct {
	Kind      EventKind
	Principal string         // who called, or whose task it is
	Task      string         // the id, "" if there is none; that of a refused request is cut to 128 bytes
	Method    string         // of the call, or of the request that the task is for
	From, To  mcp.TaskStatus // of a move; To is the status in events about a task
	Err       error          // of a refusal
	// Foreign marks a refusal to a principal who has asked for the task of another.
	Foreign bool
}

// Stats are counters since the Manager was made, and levels as they are now.
type Stats struct {
	Created, Completed, Failed, Cancelled, Expired, Recovered uint64
	// Reads counts tasks/get, tasks/result and tasks/list that were answered, Refused all calls
	// that were not, and Foreign those among them that were for a task of another principal.
	Reads, Refused, Foreign uint64

	Running int // work under way in this process
	Waiting int // calls blocked in tasks/result
	// Unstored counts outcomes that the store has refused so far. The Manager tries them again.
	Unstored int
}

// Stats returns the counters. They are read one after another, so that sums over them may be off
// by what happens meanwhile.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	running := len(m.runs)
	m.mu.Unlock()
	a := &m.audit
	return Stats{
		Created: a.nCreated.Load(), Completed: a.nCompleted.Load(), Failed: a.nFailed.Load(), Cancelled: a.nCancelled.Load(),
		Expired: a.nExpired.Load(), Recovered: a.nRecovered.Load(),
		Reads: a.nRead.Load(), Refused: a.nRefused.Load(), Foreign: a.nForeign.Load(),
		Running: running, Waiting: int(a.waiting.Load()), Unstored: int(m.unstored.Load()),
	}
}

// audit counts events and tells them.
type audit struct {
	hook func(Event)
	log  *slog.Logger

	nCreated, nCompleted, nFailed, nCancelled, nExpired, nRecovered, nRead, nRefused, nForeign atomic.Uint64
	waiting                                                                                    atomic.Int64
}

func (a *audit) emit(level slog.Level, e Event) {
	if a.hook != nil {
		if err := a.callHook(e); err != nil {
			boundary.Report(a.log, "Config.Audit panicked", err, "task", e.Task)
		}
	}
	ctx := context.Background()
	if !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("event", string(e.Kind)), slog.String("principal", e.Principal), slog.String("method", e.Method)}
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
	a.log.LogAttrs(ctx, level, "task", attrs...)
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
	switch r.Status {
	case mcp.TaskStatusCompleted:
		a.nCompleted.Add(1)
	case mcp.TaskStatusFailed:
		a.nFailed.Add(1)
	case mcp.TaskStatusCancelled:
		a.nCancelled.Add(1)
	}
	a.emit(slog.LevelInfo, Event{Kind: EventMoved, Principal: r.Owner, Task: r.ID, Method: r.Method, From: from, To: r.Status})
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

// maxAuditedID is how many bytes of the id in a refused request an [Event] has. Task ids are shorter.
const maxAuditedID = 128

func (a *audit) refused(principal, id, method string, err error) {
	a.nRefused.Add(1)
	foreign := errors.Is(err, errForeign)
	if foreign {
		a.nForeign.Add(1)
	}
	// The peer chooses the id of a request that is refused.
	a.emit(slog.LevelInfo, Event{Kind: EventRefused, Principal: principal, Task: boundary.Text(id, maxAuditedID), Method: method, Err: err, Foreign: foreign})
}
