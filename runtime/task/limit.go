package task

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter holds principals to their limits.
type limiter struct {
	limits Limits // 0 for none

	mu             sync.Mutex
	principals     map[string]*usage
	purgeThreshold int // how many owners there may be before idle ones are forgotten
}

// usage is what one principal has.
type usage struct {
	tasks int           // not terminal, or with work that has not returned
	bytes int64         // of records, and of requests whose work goes on after its task is terminal
	calls *rate.Limiter // nil without a limit
}

// share is what a task with work in this process counts for its principal. The limiter's mu guards
// it.
type taskUsage struct {
	principal    string
	bytes        int64  // counted for the record
	revision     uint64 // of the record that was counted
	requestBytes int64  // bytes that the work holds even if the record has dropped them
	terminal     bool   // the record is terminal, or gone
	dropped      bool   // the record is gone
	returned     bool   // the work has returned
}

// of returns the usage of a principal. It is called with mu held.
func (l *limiter) usageOf(principal string) *usage {
	u := l.principals[principal]
	if u == nil {
		if len(l.principals) > l.purgeThreshold {
			l.purgeIdle()
		}
		u = new(usage)
		if l.limits.Rate > 0 {
			u.calls = rate.NewLimiter(rate.Limit(l.limits.Rate), max(l.limits.Burst, 1))
		}
		l.principals[principal] = u
	}
	return u
}

// forget drops what is known of principals who have nothing and have not called for a while.
func (l *limiter) purgeIdle() {
	for principal, u := range l.principals {
		if u.tasks == 0 && u.bytes == 0 && (u.calls == nil || u.calls.Tokens() >= float64(u.calls.Burst())) {
			delete(l.principals, principal)
		}
	}
	l.purgeThreshold = 2*len(l.principals) + 64
}

// call counts a call.
func (l *limiter) allowCall(principal string) error {
	if l.limits.Rate == 0 {
		return nil
	}
	l.mu.Lock()
	calls := l.usageOf(principal).calls
	l.mu.Unlock()
	now := time.Now()
	if calls.AllowN(now, 1) {
		return nil
	}
	missing := 1 - calls.TokensAt(now)
	return &LimitError{CodeTooManyCalls, int64(l.limits.Rate), time.Duration(missing / l.limits.Rate * float64(time.Second))}
}

// begin counts a new task.
func (l *limiter) addTask(s *taskUsage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(s.principal)
	if l.limits.Tasks > 0 && u.tasks >= l.limits.Tasks {
		return &LimitError{Code: CodeTooManyTasks, Limit: int64(l.limits.Tasks)}
	}
	if l.limits.Bytes > 0 && u.bytes+s.bytes > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	u.tasks++
	u.bytes += s.bytes
	return nil
}

// adopt counts a task that is there already, whatever the limits say.
func (l *limiter) addExisting(principal string, bytes int64, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(principal)
	u.bytes += bytes
	if live {
		u.tasks++
	}
}

// reserve counts bytes that are about to be stored. It fails above the limit, unless must is true.
func (l *limiter) reserve(principal string, more int64, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(principal)
	if more > 0 && !must && l.limits.Bytes > 0 && u.bytes+more > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	u.bytes += more
	return nil
}

// settle counts the record of a task as the store has it, in the place of what was counted before and
// of the bytes that were reserved for it. It reports false if a later one was counted already.
func (l *limiter) commit(s *taskUsage, r *Record, reserved int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(s.principal)
	u.bytes -= reserved
	if s.dropped || r.Revision <= s.revision {
		return false
	}
	u.bytes += r.Bytes - s.bytes
	s.bytes, s.revision = r.Bytes, r.Revision
	if r.terminal() {
		s.setTerminal(u)
	}
	return true
}

// end records that the task is terminal. The limiter's mu must be held.
func (s *taskUsage) setTerminal(u *usage) {
	if s.terminal {
		return
	}
	s.terminal = true
	if s.returned {
		u.tasks--
	} else {
		u.bytes += s.requestBytes
	}
}

// leave releases the place of a terminal task when its work has returned.
func (l *limiter) workReturned(s *taskUsage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.returned {
		return
	}
	s.returned = true
	if s.terminal {
		u := l.usageOf(s.principal)
		u.tasks--
		u.bytes -= s.requestBytes
	}
}

// drop counts a task whose record is gone, and that has no work here.
func (l *limiter) dropTaskWithoutWork(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.usageOf(r.Owner)
	u.bytes -= r.Bytes
	if !r.terminal() {
		u.tasks--
	}
}

// dropShare counts a task whose record is gone, and that has work here.
func (l *limiter) dropTaskWithWork(s *taskUsage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.dropped {
		return
	}
	u := l.usageOf(s.principal)
	u.bytes -= s.bytes
	s.bytes, s.dropped = 0, true
	s.setTerminal(u)
}
