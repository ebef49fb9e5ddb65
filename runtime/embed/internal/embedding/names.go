package embedding

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// toolNames caches which tools the SDK lists for a client. They decide the error for a call of a
// tool that is never a task. Otherwise, a client could make the server list all of its tools with
// each small request. The zero value is ready to use.
type toolNames struct {
	mu    sync.Mutex
	lists map[caller]*nameList
}

// caller is a client that may see other tools than others.
type caller struct{ principal, session string }

const (
	// namesTTL is how long a list is used. An outdated list is harmless: the call of a tool that was
	// added meanwhile is refused in any case, with another error.
	namesTTL = 10 * time.Second
	// maxLists limits the number of lists. At the limit, all are dropped.
	maxLists = 256
)

// nameList is the tools that a client may see.
type nameList struct {
	until time.Time
	done  chan struct{} // closed when the following are set
	names map[uint64]struct{}
	err   error
}

var nameSeed = maphash.MakeSeed()

// has reports whether list, which calls add for each name, lists a tool for the client of a request.
func (x *toolNames) has(ctx context.Context, in *Incoming, name string, list func(ctx context.Context, in *Incoming, add func(name string)) error) (bool, error) {
	key := caller{in.Principal, in.Session}
	x.mu.Lock()
	l := x.lists[key]
	first := l == nil || time.Now().After(l.until)
	if first {
		if x.lists == nil || len(x.lists) >= maxLists {
			x.lists = map[caller]*nameList{}
		}
		l = &nameList{until: time.Now().Add(namesTTL), done: make(chan struct{}), names: map[uint64]struct{}{}}
		x.lists[key] = l
	}
	x.mu.Unlock()
	if first {
		defer close(l.done)
		l.err = list(ctx, in, func(name string) { l.names[maphash.String(nameSeed, name)] = struct{}{} })
		if ctx.Err() != nil { // the next call lists again
			x.mu.Lock()
			if x.lists[key] == l {
				delete(x.lists, key)
			}
			x.mu.Unlock()
		}
	} else {
		select {
		case <-l.done:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	_, ok := l.names[maphash.String(nameSeed, name)]
	return ok, l.err
}
