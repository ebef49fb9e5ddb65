package task

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Request describes a request that runs as a task.
type Request struct {
	Principal string
	Method    string            // method of the request, such as tools/call
	Params    json.RawMessage   // params of the request, without the task member
	Token     mcp.ProgressToken // progress token of the request, at most MaxToken bytes; or the zero token
	Name      string            // name of the tool that is called, for operators; may be empty
	Task      *mcp.TaskMetadata // task member of the request; may be nil

	// Exactly one of Work and Runner must be set. Work runs the task in this process, unless it is
	// left to other members of the fleet; see [Member].Tools. Runner is the name in [Options.Jobs]
	// of the external system that runs the task.
	Work   Work
	Runner string
	// Values has the values of the context of Work. Nil stands for the context with which the task
	// is created, which may keep more in memory than the work needs.
	Values context.Context
	// Restartable declares that Work may be re-run from its start if the receiver stops before the
	// task is terminal. See also [Recovery.MaxReruns].
	Restartable bool
	// Labels are what the task requires of the member of a fleet that holds it. Only a member that
	// has all of them in [Member].Labels runs the task; until one joins, the task waits. Labels
	// need Restartable; see [Member].Labels. They have no effect if the store is not shared.
	Labels []string

	// Begun declares that Work continues what has begun in this process. So this process holds the
	// task, even if it does not run the tasks of the tool; see [Member].Tools. It must have all
	// Labels. The task does not wait for room; see [Limits.Running].
	Begun bool

	// Protocol is the protocol revision of the request; "" means one with sessions.
	Protocol mcp.Revision
	// Version names the version of restartable Work. Work of another version cannot continue from
	// what this one has recorded; [Recovery.Recover] decides what becomes of the task.
	Version string
	// Entries are what restartable Work has recorded before the task is created. If they exceed
	// [Limits.Journal], Create fails with a [*JournalError].
	Entries []Entry

	StatusMessage string
	PollInterval  time.Duration // 0 means Options.Updates.Poll; a negative value suggests none

	// Via is the requestor, or nil if it cannot be reached.
	Via Requestor
}

// Create stores a new task and starts its work. When Create returns, the task is stored, durably if
// the store is durable. The returned status is always working, even if the work is already done.
// The context of the work has the values of ctx, but does not end with it.
//
// Create makes one attempt. It fails with [ErrUnavailable] if the store fails, and without an
// attempt once the store has been failing for 2 seconds. The work then does not start.
func (m *Manager) Create(ctx context.Context, q Request) (mcp.Task, error) {
	var r Record
	if err := m.create(ctx, &q, &r); err != nil {
		m.audit.refused(q.Principal, "", q.Method, err)
		return mcp.Task{}, err
	}
	return r.Task(), nil
}

// requestError reports a mistake in a [Request]. The same Request never succeeds.
type requestError struct{ error }

func newRequestError(format string, args ...any) error {
	return &requestError{fmt.Errorf("task: create: "+format, args...)}
}

// create sets r to the record of the new task.
func (m *Manager) create(ctx context.Context, q *Request, r *Record) error {
	if err := m.admit(ctx, q.Principal); err != nil {
		return err
	}
	if err := m.refuses(); err != nil {
		return err
	}
	work := q.Work
	if q.Runner != "" {
		jobs := m.cfg.Jobs[q.Runner]
		if jobs == nil {
			return newRequestError("unknown Runner %q", q.Runner)
		}
		if work != nil {
			return newRequestError("Work and Runner %q are mutually exclusive", q.Runner)
		}
		work = jobWork(jobs)
	}
	if work == nil {
		return newRequestError("neither Work nor Runner is set")
	}
	labels, err := taskrules.LabelSet(q.Labels)
	if err != nil {
		return newRequestError("%w", err)
	}
	if labels != nil && !q.Restartable {
		return newRequestError("Labels need Restartable")
	}
	if label := m.lacks(labels...); label != "" && q.Begun {
		return newRequestError("the process in which the work has begun does not have the label %q", label)
	}
	ttl, err := m.ttl(q.Task)
	if err != nil {
		return err
	}
	if tokenSize(q.Token) > maxToken {
		return errToken
	}
	claim, err := m.fleet.claim(Claim{})
	if err != nil {
		return err
	}
	now := m.later().UTC().Truncate(time.Microsecond)
	*r = Record{
		Claim: claim,
		Owner: q.Principal, Status: mcp.TaskStatusWorking, StatusMessage: statusText(q.StatusMessage),
		Created: now, Updated: now, TTL: ttl, PollInterval: m.cfg.Updates.Poll,
		Method: q.Method, Params: q.Params, Token: q.Token, Name: q.Name,
		Protocol: q.Protocol, Restartable: q.Restartable, Runner: q.Runner, Labels: labels,
		Trace: m.trace(ctx),
	}
	if q.Restartable && q.Runner == "" {
		r.Durable = (&Durable{Version: q.Version}).with(q.Entries)
		if err := m.checkJournal(r); err != nil {
			return err
		}
	}
	if q.PollInterval != 0 {
		r.PollInterval = wholeMilliseconds(q.PollInterval)
	}
	for {
		r.ID = rand.Text()
		r.Bytes = r.size()
		if r.Restartable && !q.Begun && !m.runsHere(r.Name, r.Labels...) {
			err = m.fleet.createElsewhere(ctx, r, q.Via)
		} else {
			err = m.storeAndStart(ctx, r, q, work)
		}
		if !errors.Is(err, ErrExists) {
			return err
		}
	}
}

// storeAndStart stores a task and starts its work. It registers the run before it stores the task,
// so that an early cancellation reaches the work.
func (m *Manager) storeAndStart(ctx context.Context, r *Record, q *Request, work Work) error {
	begun, values := q.Begun, q.Values
	if values == nil {
		values = ctx
	}
	run, err := m.newRun(values, r, q.Via)
	if err != nil {
		return err
	}
	m.limits.setNetwork(&run.usage, r.ID, network.From(ctx))
	m.measure(r.Owner, r.Bytes)
	if err := m.limits.addTask(&run.usage); err != nil {
		m.limits.unsetNetwork(r.ID)
		m.removeRun(run)
		return err
	}
	if r.Phase = taskrules.PhaseRunning; r.Durable != nil && !begun && m.crowded(r) {
		r.Phase = taskrules.PhaseNew
	}
	// Neither ctx nor Close interrupts this write.
	err = m.store.create(r)
	if err != nil && !expectedError(err) {
		if failed := m.store.get(context.Background(), r.ID, r); failed == nil {
			err = nil // the task was stored although Create failed
			m.outage.note(true, nil)
		} else if !errors.Is(failed, ErrNotFound) || errors.Is(err, ErrDoubtful) {
			return m.doubtful(*r, run, err)
		}
	}
	if now, lost := m.fleet.claim(Claim{}); err == nil && (lost != nil || now != r.Claim) {
		// The others may have looked for the tasks of this member before the task was stored.
		return m.doubtful(*r, run, errNotMember)
	}
	run.endClaiming()
	if err != nil {
		m.limits.workReturned(&run.usage)
		m.limits.dropTaskWithWork(&run.usage)
		m.limits.unsetNetwork(r.ID)
		m.removeRun(run)
		return m.logFault("create task", err)
	}
	m.fleet.wrote(run, r)
	run.seq = r.Seq
	m.limits.commit(&run.usage, r, 0)
	m.audit.created(r)
	m.scheduleSweep(r.Expires())
	m.start(run, r, begun, m.observed(r, work))
	return nil
}

// errNotCreated is the outcome of a task that the store contains although Create returned an error.
var errNotCreated = errors.New("the task could not be created")

// doubtful abandons a task, and returns the error of its creation. The store may have the task
// although the creation has failed with cause. Until the task is abandoned, its run, which may be
// nil, keeps this member from taking it over.
func (m *Manager) doubtful(r Record, run *Run, cause error) error {
	settled := make(chan struct{})
	if run == nil {
		m.spawn(func() { // ends once the outcome of the task is stored
			defer close(settled)
			m.abandon(r)
		})
	} else {
		go func() { // the same; removeRun ends it for Close
			defer close(settled)
			m.abandon(r)
			m.limits.workReturned(&run.usage)
			m.limits.dropTaskWithWork(&run.usage)
			m.limits.unsetNetwork(r.ID)
			run.endClaiming()
			m.removeRun(run)
		}()
	}
	return &doubtError{m.logFault("create task", cause), settled}
}

// abandon fails a task whose creation has failed, if the store has the task after all, whichever
// member holds it by then. It repeats that until the store has answered. If a fleet does not have
// the task, the write of the creation may still be on its way to the servers, so abandon takes its
// id.
func (m *Manager) abandon(r Record) {
	end := failedState(boundary.WireError(errNotCreated))
	err := m.persist(context.Background(), nil, func() error {
		_, err := m.change(context.Background(), r.ID, func(r *Record) error {
			if r.terminal() {
				return errUnchanged
			}
			r.setOutcome(end.status, end.message, end.out)
			return nil
		})
		if errors.Is(err, ErrNotFound) && m.fleet.others() {
			never := r
			never.Claim = Claim{}
			never.setOutcome(end.status, end.message, end.out)
			if err = m.store.create(&never); errors.Is(err, ErrExists) {
				err = &storeError{ErrUnavailable} // the write has arrived: once more
			} else {
				err = m.logFault("create task", err)
			}
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		m.cfg.Logger.Error("task not abandoned", "task", r.ID, "error", err)
	}
	if run := m.findRun(r.ID); run != nil { // this member has taken it over meanwhile
		run.abortProgress()
		run.endContext(ErrCancelled)
		m.unpark(run.id, true)
	}
}

// ttl returns the lifetime of a task; 0 means unlimited.
func (m *Manager) ttl(requested *mcp.TaskMetadata) (time.Duration, error) {
	if requested == nil || requested.TTL == nil {
		if m.cfg.TTL.Unlimited {
			return 0, nil
		}
		// The schema does not allow a ttl of null, but peers send it. It requests the longest
		// lifetime.
		if requested != nil {
			if _, null := requested.Extra.Get("ttl"); null {
				return m.cfg.TTL.Max, nil
			}
		}
		return m.cfg.TTL.Default, nil
	}
	ms := *requested.TTL
	if ms <= 0 {
		return 0, errTTL
	}
	if ms > m.cfg.TTL.Max.Milliseconds() { // ms may be too large for a Duration
		return m.cfg.TTL.Max, nil
	}
	return time.Duration(ms) * time.Millisecond, nil
}
