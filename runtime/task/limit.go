package task

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// limiter holds principals to their limits.
type limiter struct {
	limits Limits // 0 for none

	mu     sync.Mutex
	owners map[string]*usage
	purge  int // how many owners there may be before idle ones are forgotten
}

// usage is what one principal has.
type usage struct {
	tasks int           // not terminal, or with work that has not returned
	bytes int64         // of records, and of requests whose work goes on after its task is terminal
	calls *rate.Limiter // nil without a limit
}

// share is what a task with work in this process counts for its principal. The limiter's mu guards
// it.
type share struct {
	owner    string
	bytes    int64  // counted for the record
	revision uint64 // of the record that was counted
	request  int64  // bytes that the work holds even if the record has dropped them
	over     bool   // the record is terminal, or gone
	gone     bool   // the record is gone
	returned bool   // the work has returned
}

// of returns the usage of a principal. It is called with mu held.
func (l *limiter) of(owner string) *usage {
	u := l.owners[owner]
	if u == nil {
		if len(l.owners) > l.purge {
			l.forget()
		}
		u = new(usage)
		if l.limits.Rate > 0 {
			u.calls = rate.NewLimiter(rate.Limit(l.limits.Rate), max(l.limits.Burst, 1))
		}
		l.owners[owner] = u
	}
	return u
}

// forget drops what is known of principals who have nothing and have not called for a while.
func (l *limiter) forget() {
	for owner, u := range l.owners {
		if u.tasks == 0 && u.bytes == 0 && (u.calls == nil || u.calls.Tokens() >= float64(u.calls.Burst())) {
			delete(l.owners, owner)
		}
	}
	l.purge = 2*len(l.owners) + 64
}

// call counts a call.
func (l *limiter) call(owner string) error {
	if l.limits.Rate == 0 {
		return nil
	}
	l.mu.Lock()
	calls := l.of(owner).calls
	l.mu.Unlock()
	now := time.Now()
	if calls.AllowN(now, 1) {
		return nil
	}
	missing := 1 - calls.TokensAt(now)
	return &LimitError{CodeTooManyCalls, int64(l.limits.Rate), time.Duration(missing / l.limits.Rate * float64(time.Second))}
}

// begin counts a new task.
func (l *limiter) begin(s *share) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(s.owner)
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
func (l *limiter) adopt(owner string, bytes int64, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(owner)
	u.bytes += bytes
	if live {
		u.tasks++
	}
}

// reserve counts bytes that are about to be stored. It fails above the limit, unless must is true.
func (l *limiter) reserve(owner string, more int64, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(owner)
	if more > 0 && !must && l.limits.Bytes > 0 && u.bytes+more > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	u.bytes += more
	return nil
}

// settle counts the record of a task as the store has it, in the place of what was counted before and
// of the bytes that were reserved for it. It reports false if a later one was counted already.
func (l *limiter) settle(s *share, r *Record, reserved int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(s.owner)
	u.bytes -= reserved
	if s.gone || r.Revision <= s.revision {
		return false
	}
	u.bytes += r.Bytes - s.bytes
	s.bytes, s.revision = r.Bytes, r.Revision
	if r.over() {
		s.end(u)
	}
	return true
}

// end records that the task is terminal. The limiter's mu must be held.
func (s *share) end(u *usage) {
	if s.over {
		return
	}
	s.over = true
	if s.returned {
		u.tasks--
	} else {
		u.bytes += s.request
	}
}

// leave releases the place of a terminal task when its work has returned.
func (l *limiter) leave(s *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.returned {
		return
	}
	s.returned = true
	if s.over {
		u := l.of(s.owner)
		u.tasks--
		u.bytes -= s.request
	}
}

// drop counts a task whose record is gone, and that has no work here.
func (l *limiter) drop(r *Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(r.Owner)
	u.bytes -= r.Bytes
	if !r.over() {
		u.tasks--
	}
}

// dropShare counts a task whose record is gone, and that has work here.
func (l *limiter) dropShare(s *share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.gone {
		return
	}
	u := l.of(s.owner)
	u.bytes -= s.bytes
	s.bytes, s.gone = 0, true
	s.end(u)
}
