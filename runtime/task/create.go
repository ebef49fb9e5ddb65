package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// Request is a request that runs as a task.
type Request struct {
	Principal string
	Method    string            // such as tools/call
	Params    json.RawMessage   // without the task member
	Token     mcp.ProgressToken // under which progress is wanted, or the zero one
	Task      *mcp.TaskMetadata // what the requestor wishes; nil for nothing

	// Work does what is asked in this process; it is nil if Runner does it elsewhere, which is
	// one of [Config.Jobs] by name.
	Work   Work
	Runner string
	// Restartable declares that Work may be run again from its start if the receiver stops in
	// between.
	Restartable bool

	StatusMessage string
	PollInterval  time.Duration // 0 for that of the [Config]; a negative value leaves it to the requestor

	// Via is where the requestor can be reached, or nil.
	Via Requestor
}

// Create stores a new task and starts its work. When it returns the task is as durable as the
// store makes it. The state that it returns is that of the creation: working, even if the work is
// done already. The values of ctx are those of the work's context, its end is not.
func (m *Manager) Create(ctx context.Context, q Request) (mcp.Task, error) {
	var r Record
	if err := m.create(ctx, &q, &r); err != nil {
		m.audit.refused(q.Principal, "", q.Method, err)
		return mcp.Task{}, err
	}
	return r.Task(), nil
}

// create makes r the record of the new task.
func (m *Manager) create(ctx context.Context, q *Request, r *Record) error {
	if err := m.admit(q.Principal); err != nil {
		return err
	}
	work := q.Work
	if q.Runner != "" {
		jobs := m.cfg.Jobs[q.Runner]
		if jobs == nil {
			return fmt.Errorf("task: create: unknown Runner %q", q.Runner)
		}
		if work != nil {
			return fmt.Errorf("task: create: Work and Runner %q are mutually exclusive", q.Runner)
		}
		work = jobWork(jobs)
	}
	if work == nil {
		return errors.New("task: create: neither Work nor Runner is set")
	}
	ttl, err := m.ttl(q.Task)
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	*r = Record{
		Owner: q.Principal, Status: mcp.TaskStatusWorking, StatusMessage: statusText(q.StatusMessage),
		Created: now, Updated: now, TTL: ttl, PollInterval: m.cfg.PollInterval,
		Method: q.Method, Params: q.Params, Token: q.Token,
		Restartable: q.Restartable, Runner: q.Runner,
	}
	if q.PollInterval != 0 {
		r.PollInterval = wholeMilliseconds(q.PollInterval)
	}
	for {
		r.ID = rand.Text()
		r.Bytes = r.size()
		if err := m.storeAndStart(ctx, r, q.Via, work); !errors.Is(err, ErrExists) {
			return err
		}
	}
}

// begin stores a task and starts its work. The work is known before the task is, so that no
// cancellation can come too early for it.
func (m *Manager) storeAndStart(ctx context.Context, r *Record, via Requestor, work Work) error {
	run, err := m.newRun(ctx, r, via)
	if err != nil {
		return err
	}
	if err := m.limits.addTask(&run.usage); err != nil {
		m.removeRun(run)
		return err
	}
	// The task is stored even if the requestor gives up or the Manager closes meanwhile.
	err = m.store.create(r)
	if err != nil && !expectedError(err) {
		if failed := m.store.get(context.Background(), r.ID, r); failed == nil {
			err = nil // it was stored all the same
		} else if !errors.Is(failed, ErrNotFound) {
			m.setWriteError(err)
			run.seq = 0
			go m.runWork(run, func(context.Context, *Run) (codec.Encoder, error) { return nil, errNotCreated }) // ends when the store works again, or the Manager closes
			return m.logFault("create task", err)
		}
	}
	m.setWriteError(err)
	if err != nil {
		m.limits.workReturned(&run.usage)
		m.limits.dropTaskWithWork(&run.usage)
		m.removeRun(run)
		return m.logFault("create task", err)
	}
	run.seq = r.Seq
	m.limits.commit(&run.usage, r, 0)
	m.audit.created(r)
	m.scheduleSweep(r.Expires())
	go m.runWork(run, work) // ends with the work; forgets the run
	return nil
}

// errNotCreated ends a task that the store has although its creation has failed.
var errNotCreated = errors.New("the task could not be created")

// ttl settles how long a task is kept; 0 is for ever.
func (m *Manager) ttl(requested *mcp.TaskMetadata) (time.Duration, error) {
	if requested == nil || requested.TTL == nil {
		if m.cfg.Unlimited {
			return 0, nil
		}
		// A ttl of null, which the schema does not have but peers send, asks for as much as
		// there is.
		if requested != nil {
			if _, null := requested.Extra.Get("ttl"); null {
				return m.cfg.MaxTTL, nil
			}
		}
		return m.cfg.DefaultTTL, nil
	}
	ms := *requested.TTL
	if ms <= 0 {
		return 0, ErrTTL
	}
	if ms > m.cfg.MaxTTL.Milliseconds() { // before it could overflow a Duration
		return m.cfg.MaxTTL, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}
