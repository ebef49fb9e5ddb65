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
	tasks int // not over
	bytes int64
	calls *rate.Limiter // nil without a limit
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

// begin counts a new task with its bytes.
func (l *limiter) begin(owner string, bytes int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(owner)
	if l.limits.Tasks > 0 && u.tasks >= l.limits.Tasks {
		return &LimitError{Code: CodeTooManyTasks, Limit: int64(l.limits.Tasks)}
	}
	if l.limits.Bytes > 0 && u.bytes+bytes > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	u.tasks++
	u.bytes += bytes
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

// grow counts bytes that are about to be stored, or freed. It refuses what goes beyond the limit,
// unless it must be.
func (l *limiter) grow(owner string, more int64, must bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(owner)
	if more > 0 && !must && l.limits.Bytes > 0 && u.bytes+more > l.limits.Bytes {
		return &LimitError{Code: CodeTooManyBytes, Limit: l.limits.Bytes}
	}
	u.bytes += more
	return nil
}

// finish counts a task that is over.
func (l *limiter) finish(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(owner).tasks--
}

// drop counts a task that is gone.
func (l *limiter) drop(owner string, bytes int64, live bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(owner)
	u.bytes -= bytes
	if live {
		u.tasks--
	}
}
