package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// candidate is an upstream that may have a resource.
type candidate struct {
	link   *link
	likely bool // it lists the resource, or a template that begins like the URI
}

// finding is what a candidate has responded.
type finding struct {
	link *link
	text json.RawMessage
	err  error
}

var errNoResponse = errors.New("proxy: upstream has not responded in time")

// search passes a request with a URI to the candidates, in their order, until one knows the
// resource. Each has a head start of patience before the next one is asked as well. An upstream
// that is not likely to have the resource delays the result by sharedTimeout at most. By is the
// upstream that has served the request. If there is none, err is the first error; one with another
// meaning than "unknown" takes precedence. It is nil without candidates.
func (c *client) search(ctx context.Context, req *session.Request, candidates []candidate) (text json.RawMessage, by *link, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the requests to the others
	found := make(chan finding, len(candidates))
	asked := map[*link]bool{} // without a response
	failed := func(e error) {
		if err == nil || meansUnknown(err) && !meansUnknown(e) {
			err = e
		}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for turn := true; ; {
		for len(candidates) > 0 && (turn || len(asked) == 0) {
			next := candidates[0]
			candidates = candidates[1:]
			if next.link.ready() == nil || !next.likely && next.link.searches.isOpen() {
				failed(next.link.unavailable())
				continue
			}
			asked[next.link] = true
			go func() { found <- c.searchAt(ctx, req, next) }() // ends with ctx or the response
			turn = next.link.slow.Load()
			timer.Reset(patience)
		}
		if len(asked) == 0 {
			return nil, nil, err
		}
		select {
		case f := <-found:
			delete(asked, f.link)
			if f.err == nil {
				return f.text, f.link, nil
			}
			if _, ok := errors.AsType[*jsonrpc.Error](f.err); !ok {
				return nil, nil, f.err
			}
			failed(f.err)
		case <-timer.C:
			turn = true
			for l := range asked {
				l.slow.Store(true)
			}
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// searchAt passes the request of a search to one candidate.
func (c *client) searchAt(ctx context.Context, req *session.Request, at candidate) finding {
	l, began := at.link, time.Now()
	if !at.likely {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, sharedTimeout, errNoResponse)
		defer cancel()
	}
	text, err := l.call(ctx, req, req.Params)
	took := time.Since(began)
	switch {
	case errors.Is(err, errNoResponse):
		l.searches.failed()
		err = l.unavailable()
	case answered(err):
		l.searches.succeeded()
		if took <= patience {
			l.slow.Store(false)
		}
	}
	return finding{l, text, err}
}
