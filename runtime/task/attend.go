package task

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// An attendant is a Run that runs no work. It knows the requestors of this process that wait for a
// task, or have created it for other members, whichever member holds the task: it delivers input
// requests to them, and passes on what the work sends them from another member.

// maxMessages and messageTimeout bound what an attendant holds for a requestor that is slow. Later
// messages are dropped.
const (
	maxMessages    = 256
	messageTimeout = 10 * time.Second
)

// attend implements [fleet].
func (f *shared) attend(ctx context.Context, r *Record) (*Run, func()) {
	held := f.m.findRun(r.ID) != nil
	run := f.addAttendant(r)
	if !held {
		f.announceWaiter(ctx, r.ID)
	}
	return run, func() {
		f.awaitMessages(ctx, r.ID)
		f.unattend(r.ID)
	}
}

// addAttendant returns the attendant of a task, until unattend is called as often as addAttendant.
func (f *shared) addAttendant(r *Record) *Run {
	f.follow(r.ID)
	held := f.m.findRun(r.ID)
	f.mu.Lock()
	defer f.mu.Unlock()
	each := f.followed[r.ID]
	if each.attendant == nil {
		run := &Run{m: f.m, id: r.ID, seq: r.Seq, method: r.Method, token: r.Token, extension: r.extension(), attends: true}
		run.usage = taskUsage{principal: r.Owner, bytes: r.Bytes, revision: r.Revision}
		run.progress.restart()
		if held != nil {
			run.creator = held.creator
		}
		each.attendant = run
	}
	each.attending++
	return each.attendant
}

// unattend undoes addAttendant.
func (f *shared) unattend(id string) {
	f.mu.Lock()
	each := f.followed[id]
	if each.attending--; each.attending == 0 {
		each.attendant, each.messages = nil, nil
	}
	f.mu.Unlock()
	f.unfollow(id)
}

// attendant implements [fleet].
func (f *shared) attendant(id string) *Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if each := f.followed[id]; each != nil {
		return each.attendant
	}
	return nil
}

// findLocal returns the Run that knows the waiters of a task in this process: the attendant of the
// task, or else the run of its work. It returns nil if there is neither.
func (m *Manager) findLocal(id string) *Run {
	if attendant := m.fleet.attendant(id); attendant != nil {
		return attendant
	}
	return m.findRun(id)
}

// message is a notification that work sends to a requestor of another member.
type message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`
}

// waiting is the message by which a member announces that a requestor waits there. The member that
// runs the work may know only another requestor. The message is not JSON, so that earlier versions
// of this package ignore it.
const waiting = "waiting"

// announceWaiter makes the member that holds a task send the messages of the work to others, too.
func (f *shared) announceWaiter(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := boundary.Run(func() error { return f.current().Send(ctx, id, []byte(waiting)) }); err != nil {
		f.m.cfg.Logger.Debug("waiter not announced", "task", id, "error", err)
	}
}

// awaitMessages waits until the messages that have arrived for a task are passed on, or ctx ends.
func (f *shared) awaitMessages(ctx context.Context, id string) {
	f.mu.Lock()
	passed := f.followed[id].passed
	f.mu.Unlock()
	if passed != nil {
		select {
		case <-passed:
		case <-ctx.Done():
		case <-f.m.lifetime.Done():
		}
	}
}

// received passes a message on to the requestor of an attendant. One goroutine for each task keeps
// the order.
func (f *shared) received(id string, data []byte) {
	if string(data) == waiting {
		if run := f.m.findRun(id); run != nil {
			run.setElsewhere()
		}
		return
	}
	var next message
	if json.Unmarshal(data, &next) != nil {
		return
	}
	f.mu.Lock()
	each := f.followed[id]
	if each == nil || each.attendant == nil || len(each.messages) == maxMessages {
		f.mu.Unlock()
		return
	}
	each.messages = append(each.messages, next)
	start := each.passed == nil
	if start {
		each.passed = make(chan struct{})
	}
	f.mu.Unlock() // spawn locks the Manager's mu
	if start {
		f.m.spawn(func() { f.pass(each) }) // ends when no message is left
	}
}

// pass passes on the messages to the attendant of a task.
func (f *shared) pass(each *followed) {
	for {
		f.mu.Lock()
		run := each.attendant
		if len(each.messages) == 0 || run == nil {
			close(each.passed)
			each.messages, each.passed = nil, nil
			f.mu.Unlock()
			return
		}
		next := each.messages[0]
		each.messages = each.messages[1:]
		f.mu.Unlock()
		if to := run.requestor(); to != nil {
			ctx, cancel := context.WithTimeout(f.m.lifetime, messageTimeout)
			err := notify(ctx, to, next.Method, rawJSON(next.Params))
			cancel()
			boundary.Report(f.m.cfg.Logger, "requestor panicked", err, "task", run.id)
		}
	}
}

// remote is the [Requestor] of work that has requestors in other processes, and maybe one here.
type remote struct {
	f    *shared
	id   string
	here Requestor // nil if there is none
}

// Call fails: the attendants deliver input requests.
func (to remote) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return nil, errors.New("task: the requestor is in another process")
}

// Notify sends a message to the attendants of the task, and to the requestor here. It fails if both
// do.
func (to remote) Notify(ctx context.Context, method string, params codec.Encoder) error {
	err := to.send(ctx, method, params)
	if to.here != nil && to.here.Notify(ctx, method, params) == nil {
		return nil
	}
	return err
}

func (to remote) send(ctx context.Context, method string, params codec.Encoder) error {
	next := message{Method: method}
	if params != nil {
		var err error
		if next.Params, err = boundary.Marshal(params); err != nil {
			return err
		}
	}
	data, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return boundary.Run(func() error { return to.f.current().Send(ctx, to.id, data) })
}

// createElsewhere stores a task that other members run. The attendant of the task exists until the
// task is terminal, so that the creator receives what the work sends.
func (f *shared) createElsewhere(ctx context.Context, r *Record, via Requestor) error {
	m, membership := f.m, f.current()
	r.Claim = Claim{}
	run := f.addAttendant(r)
	run.creator = via
	run.setLastSeen(via)
	m.limits.setNetwork(&run.usage, r.ID, network.From(ctx))
	m.measure(r.Owner, r.Bytes)
	if err := m.limits.addTask(&run.usage); err != nil {
		m.limits.unsetNetwork(r.ID)
		f.unattend(r.ID)
		return err
	}
	f.mu.Lock()
	each := f.followed[r.ID]
	each.placing = new(placementOf(r))
	f.mu.Unlock()
	err := m.store.create(r)
	if err != nil {
		id, stored := r.ID, Record{}
		failed := err
		if !expectedError(err) {
			failed = m.store.get(context.Background(), id, &stored)
		}
		if failed != nil {
			f.forgetCreated(id, run)
			if !expectedError(err) && (!errors.Is(failed, ErrNotFound) || errors.Is(err, ErrDoubtful)) {
				return m.doubtful(*r, nil, err)
			}
			return m.logFault("create task", err)
		}
		m.outage.note(true, nil)
		*r = stored
	}
	if lapsed(membership) {
		// The others may have looked for unclaimed tasks before this one was stored.
		f.forgetCreated(r.ID, run)
		return m.doubtful(*r, nil, errNotMember)
	}
	m.limits.commit(&run.usage, r, 0)
	m.audit.created(r)
	m.scheduleSweep(r.Expires())
	f.mu.Lock()
	each.stored = true
	f.mu.Unlock()
	f.changed(r.ID) // for a change before stored was set
	f.place(r)
	f.placeLater(r.ID)
	return nil
}

// forgetCreated undoes what createElsewhere has prepared for a task that was not created.
func (f *shared) forgetCreated(id string, run *Run) {
	f.m.limits.dropTaskWithWork(&run.usage)
	f.m.limits.forget(&run.usage)
	f.m.limits.unsetNetwork(id)
	f.mu.Lock()
	f.followed[id].placing = nil
	f.mu.Unlock()
	f.unattend(id)
}

// placeLater offers a task again after a while, until a member has claimed it.
func (f *shared) placeLater(id string) {
	time.AfterFunc(f.current().Self().Lease, func() {
		f.m.spawn(func() { // ends with the offer
			if f.placeOnce(id) {
				f.placeLater(id)
			}
		})
	})
}

// place offers a task to the member that is designated for it.
func (f *shared) place(r *Record) {
	membership := f.current()
	p := placementOf(r)
	member := designated(membership.Members(), r.ID, &p)
	if member == "" {
		f.m.cfg.Logger.Warn("no member runs the tool", "task", r.ID, "tool", r.Name, "version", p.version, "labels", r.Labels)
		return
	}
	ctx, cancel := context.WithTimeout(f.m.lifetime, statusTimeout)
	defer cancel()
	if err := boundary.Run(func() error { return membership.Offer(ctx, member, r.ID) }); err != nil {
		f.m.cfg.Logger.Warn("task not offered", "task", r.ID, "member", member, "error", err)
	}
}

// placeAgain offers the tasks that were created here and that no member has claimed yet.
func (f *shared) placeAgain() {
	f.mu.Lock()
	var ids []string
	for id, each := range f.followed {
		if each.placing != nil {
			ids = append(ids, id)
		}
	}
	f.mu.Unlock()
	for _, id := range ids {
		f.placeOnce(id)
	}
}

// placeOnce offers a task that was created here, unless a member has claimed it. It returns false
// if it need not be offered again. While no member serves the task, placeOnce does not read it: the
// next member that does looks for tasks when it joins.
func (f *shared) placeOnce(id string) bool {
	f.mu.Lock()
	var p *placement
	if each := f.followed[id]; each != nil {
		p = each.placing
	}
	f.mu.Unlock()
	if p == nil {
		return false
	}
	if designated(f.current().Members(), id, p) == "" {
		return true
	}
	var r Record
	err := f.m.store.get(f.m.lifetime, id, &r)
	if err == nil && r.Claim.Member == "" && !r.terminal() {
		f.place(&r)
	} else {
		f.changed(id)
	}
	return true
}

// inspectAttendant applies a change to the attendant of a task. If this process has created the
// task, the attendant ends some time after the task, so that it receives the last messages. R is
// nil if the task was dropped.
func (f *shared) inspectAttendant(id string, r *Record) {
	f.mu.Lock()
	each := f.followed[id]
	if each == nil || each.attendant == nil || each.placing != nil && !each.stored {
		f.mu.Unlock()
		return
	}
	run := each.attendant
	if each.placing != nil && (r == nil || r.terminal() || r.Claim.Member != "") {
		each.placing, each.created = nil, true
	}
	ended := each.created && (r == nil || r.terminal())
	if ended {
		each.created = false
	}
	f.mu.Unlock()
	if r != nil && Terminal(r.shown()) && r.Claim.Member == "" && !f.m.cfg.Updates.Quiet {
		run.notifyStatus(r) // the other changes are reported by the member that holds the task
	}
	if !ended {
		return
	}
	if f.m.limits.counts(&run.usage) { // not after a handover
		if r == nil {
			f.m.limits.dropTaskWithWork(&run.usage)
		} else {
			f.m.limits.commit(&run.usage, r, 0)
		}
		f.m.limits.forget(&run.usage)
		f.m.limits.unsetNetwork(id)
	}
	time.AfterFunc(messageTimeout, func() { f.unattend(id) })
}
