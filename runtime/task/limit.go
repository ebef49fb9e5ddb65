package task

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// limiter enforces the limits of all principals.
type limiter struct {
	limits Limits // 0 means no limit
	shared bool   // the store is shared; see measure

	mu             sync.Mutex
	principals     map[string]*usage
	networks       map[string]string // of the creators of tasks without an owner, by task
	purgeThreshold int               // number of principals above which idle ones are removed
}

// usage counts what one principal uses. What clients without a principal use counts for the
// principal "" and, if it is known, for the network of the client: one network may use half of what
// is there for all. The network is not stored: after a restart, tasks count for "" only.
type usage struct {
	tasks int // tasks that are not terminal or whose work has not returned
	// bytes counts the bytes of records, and of requests whose work continues after the task is
	// terminal.
	bytes int64
	calls *rate.Limiter // nil if there is no limit

	// The following are used in a fleet only; see measure.
	stored    int64      // bytes of records of tasks without work in this process, as far as known
	added     int64      // bytes that this process has stored since the latest measurement
	latest    time.Time  // when it last did so
	measured  time.Time  // when stored may be measured again
	measuring sync.Mutex // held during a measurement
}

// measureShare is the share of Limits.Bytes that a process stores for a principal before it
// measures how much the whole fleet has stored.
const measureShare = 16

// Times of measurements of the bytes that a principal has stored.
const (
	minMeasurePause = time.Second // between two measurements because the limit seems to be reached
	maxMeasure      = 5 * time.Second
	measurePortion  = 256 // number of tasks that are listed at once
)

// measure updates the number of bytes that a principal has stored in the whole fleet, before this
// process stores more of them. A process knows the tasks that it has work for; other members store
// tasks, too, and finished tasks stay in the store. So measure lists the tasks of the principal
// once this process has stored a share of the limit since it did so last, and when the limit seems
// to be reached: then tasks may have expired meanwhile. Thus n processes together exceed the limit
// by at most n shares, and most principals cost no listing at all.
func (m *Manager) measure(principal string, more int64) {
	l := &m.limits
	if !l.shared || l.limits.Bytes <= 0 || more <= 0 {
		return
	}
	due := func() *usage {
		l.mu.Lock()
		defer l.mu.Unlock()
		u := l.usageOf(principal)
		wait := -time.Since(u.measured)
		switch {
		case u.added+more > l.limits.Bytes/measureShare && wait <= 0:
			return u
		case u.bytes+u.stored+more > l.limits.Bytes && wait <= -minMeasurePause:
			return u
		}
		return nil
	}
	u := due()
	if u == nil {
		return
	}
	u.measuring.Lock()
	defer u.measuring.Unlock()
	if due() != u {
		return // another call has just measured
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(m.lifetime, maxMeasure)
	defer cancel()
	l.mu.Lock()
	added := u.added
	l.mu.Unlock()
	found, err := m.storedElsewhere(ctx, principal)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		u.stored = found
	} else {
		u.stored = max(u.stored, found)
	}
	u.added -= added
	u.measured = time.Now().Add(10 * time.Since(began))
}

// storedElsewhere returns the number of bytes of the records of a principal's tasks that have no
// work in this process. It may stop once they exceed the limit. If it fails, it returns a lower
// bound.
func (m *Manager) storedElsewhere(ctx context.Context, principal string) (bytes int64, err error) {
	for after := uint64(0); bytes <= m.limits.limits.Bytes; {
		list, err := m.store.list(ctx, principal, after, measurePortion)
		if err != nil {
			return bytes, m.logFault("list tasks", err)
		}
		for i := range list {
			// The attendant of a task that was created here for other members is counted until it
			// ends.
			a := m.fleet.attendant(list[i].ID)
			if m.findRun(list[i].ID) == nil && (a == nil || !m.limits.counts(&a.usage)) {
				bytes += list[i].Bytes
			}
		}
		if len(list) < measurePortion {
			break
		}
		after = list[len(list)-1].Seq
	}
	return bytes, nil
}

// taskUsage is the part of a principal's usage that belongs to one task with work in this process.
// It is guarded by the limiter's mu.
type taskUsage struct {
	principal    string
	network      string // of the client that created the task, if it has no principal; may be ""
	bytes        int64  // bytes counted for the record
	revision     uint64 // revision of the record that was counted
	requestBytes int64  // bytes that the work holds even when the record has dropped them
	terminal     bool   // the record is terminal or dropped
	dropped      bool   // the record has been dropped from the store
	returned     bool   // the work has returned
	counted      bool   // the task was counted; used in a fleet only
}

// usageOf returns the usage of a principal. The caller holds mu.
func (l *limiter) usageOf(principal string) *usage {
	u := l.principals[principal]
	if u == nil {
		if len(l.principals) > l.purgeThreshold {
			l.purgeIdle()
		}
		u = new(usage)
		if l.limits.Rate > 0 {
			share := 1.0
			if network.Is(principal) {
				share = networkShare
			}
			u.calls = rate.NewLimiter(rate.Limit(l.limits.Rate*share), max(int(float64(l.limits.Burst)*share), 1))
		}
		l.principals[principal] = u
	}
	return u
}

// networkShare is the share of the limits of all clients without a principal that one network has.
const networkShare = 0.5

// usagesOf calls f with the usage of the principal of a task, and that of its network. The caller
// holds mu.
func (l *limiter) usagesOf(t *taskUsage, f func(u *usage)) {
	f(l.usageOf(t.principal))
	if t.network != "" {
		f(l.usageOf(t.network))
	}
}

// account returns the key of the turns of the principal of a task, or of its network.
func (t *taskUsage) account() string {
	if t.principal == "" && t.network != "" {
		return t.network
	}
	return t.principal
}

// setNetwork records the network of the client that creates a task without an owner.
func (l *limiter) setNetwork(t *taskUsage, id, from string) {
	if t.principal != "" || from == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.network = from
	if l.networks == nil {
		l.networks = map[string]string{}
	}
	l.networks[id] = from
}

// unsetNetwork undoes setNetwork for a task whose record is dropped or unknown.
func (l *limiter) unsetNetwork(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.networks, id)
}

// owner returns a usage with the owner of a record and the network of the client that created it.
func (l *limiter) owner(r *Record) taskUsage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ownerLocked(r)
}

// ownerLocked is owner for a caller that holds mu.
func (l *limiter) ownerLocked(r *Record) taskUsage {
	return taskUsage{principal: r.Owner, network: l.networks[r.ID]}
}

// add counts bytes that this member of a fleet stores. The caller holds the limiter's mu.
func (u *usage) add(l *limiter, more int64) {
	if l.shared && more > 0 {
		u.added += more
		u.latest = time.Now()
	}
}

// forgetAdded is the time after which the limiter of a fleet removes an idle principal although it
// has added many bytes since they were measured.
const forgetAdded = time.Hour

// purgeIdle removes principals that have no tasks and no bytes and have not called recently.
func (l *limiter) purgeIdle() {
	for principal, u := range l.principals {
		if l.shared && u.added > l.limits.Bytes/measureShare/measureShare && time.Since(u.latest) < forgetAdded {
			continue
		}
		if u.tasks == 0 && u.bytes == 0 && (u.calls == nil || u.calls.Tokens() >= float64(u.calls.Burst())) {
			delete(l.principals, principal)
		}
	}
	l.purgeThreshold = 2*len(l.principals) + 64
}

// allowCall counts a call. It fails if the principal calls too often, or a client without a
// principal in the given network, which may be "".
func (l *limiter) allowCall(principal, from string) error {
	if l.limits.Rate == 0 {
		return nil
	}
	if principal == "" && from != "" { // first, so that it does not use up what others have
		if err := l.allowCallOf(from); err != nil {
			return err
		}
	}
	return l.allowCallOf(principal)
}

func (l *limiter) allowCallOf(key string) error {
	l.mu.Lock()
	calls := l.usageOf(key).calls
	l.mu.Unlock()
	now := time.Now()
	if calls.AllowN(now, 1) {
		return nil
	}
	missing := 1 - calls.TokensAt(now)
	limit := float64(calls.Limit())
	return &LimitError{CodeTooManyCalls, int64(limit), time.Duration(missing / limit * float64(time.Second))}
}

// addTask counts a new task. It fails if the task would exceed a limit.
func (l *limiter) addTask(t *taskUsage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(t.principal)
	if l.limits.Tasks > 0 && u.tasks >= l.limits.Tasks {
		return &LimitError{Code: CodeTooManyTasks, Limit: int64(l.limits.Tasks)}
	}
	if l.limits.Bytes > 0 && u.bytes+u.stored+t.bytes > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	if t.network != "" {
		limit := max(int(float64(l.limits.Tasks)*networkShare), 1)
		if l.limits.Tasks > 0 && l.usageOf(t.network).tasks >= limit {
			return &LimitError{Code: CodeTooManyTasks, Limit: int64(limit)}
		}
	}
	if err := l.fits(t, t.bytes); err != nil {
		return err
	}
	l.usagesOf(t, func(u *usage) {
		u.tasks++
		u.bytes += t.bytes
		u.add(l, t.bytes)
	})
	t.counted = true
	return nil
}

// fits returns an error if the network of a task would exceed its share of the bytes with more of
// them. The caller holds mu.
func (l *limiter) fits(t *taskUsage, more int64) error {
	limit := int64(float64(l.limits.Bytes) * networkShare)
	if t.network == "" || l.limits.Bytes <= 0 || l.usageOf(t.network).bytes+more <= limit {
		return nil
	}
	return &LimitError{Code: CodeTooManyBytes, Limit: limit}
}

// addHeld counts a task that was taken over from another member, regardless of the limits. If the
// store is not shared, addExisting has counted the task.
func (l *limiter) addHeld(t *taskUsage) {
	if !l.shared {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(t.principal)
	u.tasks++
	u.bytes += t.bytes
	u.stored = max(0, u.stored-t.bytes)
	t.counted = true
}

// counts reports whether a task is counted, in a fleet.
func (l *limiter) counts(t *taskUsage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.counted
}

// forget stops counting a task whose run is removed from a member of a fleet. Its record, unless it
// was dropped, stays in the store.
func (l *limiter) forget(t *taskUsage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.counted {
		return
	}
	l.usageOf(t.principal).stored += t.bytes
	l.usagesOf(t, func(u *usage) {
		u.bytes -= t.bytes
		if !t.terminal || !t.returned {
			u.tasks--
		}
		if t.terminal && !t.returned {
			u.bytes -= t.requestBytes
		}
	})
	t.bytes, t.counted, t.dropped, t.terminal, t.returned = 0, false, true, true, true
}

// addExisting counts a task that is already in the store, regardless of the limits.
func (l *limiter) addExisting(principal string, bytes int64, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(principal)
	u.bytes += bytes
	if live {
		u.tasks++
	}
}

// reserve counts bytes that are about to be stored. It fails if they would exceed the limit, unless
// must is true.
func (l *limiter) reserve(t *taskUsage, more int64, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(t.principal)
	if more > 0 && !must && l.limits.Bytes > 0 && u.bytes+u.stored+more > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	if more > 0 && !must {
		if err := l.fits(t, more); err != nil {
			return err
		}
	}
	l.usagesOf(t, func(u *usage) {
		u.bytes += more
		u.add(l, more)
	})
	return nil
}

// commit counts the stored record of a task. The count replaces the earlier one of the task and the
// bytes reserved for this change. commit returns false if a later revision was already counted.
func (l *limiter) commit(t *taskUsage, r *Record, reserved int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usagesOf(t, func(u *usage) { u.bytes -= reserved })
	if t.dropped || r.Revision <= t.revision {
		return false
	}
	l.usagesOf(t, func(u *usage) { u.bytes += r.Bytes - t.bytes })
	t.bytes, t.revision = r.Bytes, r.Revision
	if r.terminal() {
		l.setTerminal(t)
	}
	return true
}

// setTerminal records that the task is terminal. The caller holds mu.
func (l *limiter) setTerminal(t *taskUsage) {
	if t.terminal {
		return
	}
	t.terminal = true
	l.usagesOf(t, func(u *usage) {
		if t.returned {
			u.tasks--
		} else {
			u.bytes += t.requestBytes
		}
	})
}

// setRequest sets the number of bytes that the work holds of its request.
func (l *limiter) setRequest(t *taskUsage, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.terminal { // otherwise the earlier number has been counted
		t.requestBytes = bytes
	}
}

// workReturned records that the work of a task has returned. A terminal task then no longer counts
// as a task.
func (l *limiter) workReturned(t *taskUsage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.returned {
		return
	}
	t.returned = true
	if t.terminal {
		l.usagesOf(t, func(u *usage) {
			u.tasks--
			u.bytes -= t.requestBytes
		})
	}
}

// dropTaskWithoutWork stops counting a dropped task that has no work in this process.
func (l *limiter) dropTaskWithoutWork(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.ownerLocked(r)
	l.usagesOf(&t, func(u *usage) {
		u.bytes -= r.Bytes
		if !r.terminal() {
			u.tasks--
		}
	})
	delete(l.networks, r.ID)
}

// dropTaskWithWork stops counting the record of a dropped task that has work in this process. Until
// the work returns, the task itself and the bytes of its request still count.
func (l *limiter) dropTaskWithWork(t *taskUsage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.dropped {
		return
	}
	l.usagesOf(t, func(u *usage) { u.bytes -= t.bytes })
	t.bytes, t.dropped = 0, true
	l.setTerminal(t)
}
