package server

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// limits are the limiters of one account. A nil limiter means no limit.
type limits struct {
	calls, logs *rate.Limiter
}

// allow reports whether a limiter has room for one more event, which then counts.
func allow(l *rate.Limiter) bool { return l == nil || l.Allow() }

// account returns the key of the limits for a request with context ctx, in a session or without:
// its principal, or the network of a client without one. If neither is known, a session has limits
// of its own, and requests without a session share theirs.
func (p *peer) account(ctx context.Context) string {
	return cmp.Or(modern.Account(ctx, session.Principal(ctx)), p.key)
}

// maxLimited is the number of accounts that have limiters of their own. Others share one.
const maxLimited = 10000

// principalLimits holds the limits of accounts. It drops limits that were unused for so long that
// their limiters are full again.
type principalLimits struct {
	cfg    *Options
	window time.Duration // after which unused limiters are full
	other  *limits

	mu           sync.Mutex
	since        time.Time          // when recent was created
	recent, past map[string]*limits // by account
}

func newPrincipalLimits(cfg *Options) *principalLimits {
	x := &principalLimits{cfg: cfg}
	x.other = newLimits(x.cfg)
	for _, l := range []*rate.Limiter{x.other.calls, x.other.logs} {
		if l != nil {
			x.window = max(x.window, time.Duration(float64(l.Burst())/float64(l.Limit())*float64(time.Second)))
		}
	}
	return x
}

func newLimits(cfg *Options) *limits {
	return &limits{calls: limiter(cfg.Limits.Calls), logs: limiter(cfg.Limits.Logs)}
}

// of returns the limits of an account.
func (x *principalLimits) of(account string) *limits {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := time.Now(); now.Sub(x.since) > x.window {
		if x.past = x.recent; now.Sub(x.since) > 2*x.window {
			x.past = nil
		}
		x.since, x.recent = now, map[string]*limits{}
	}
	l := x.recent[account]
	if l != nil {
		return l
	}
	if len(x.recent) >= maxLimited {
		return x.other
	}
	if l = x.past[account]; l == nil {
		l = newLimits(x.cfg)
	}
	x.recent[strings.Clone(account)] = l
	return l
}
