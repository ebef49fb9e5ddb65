package session

import (
	"fmt"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
)

// inbound is the set of the peer's requests that are being served. Its methods are safe for
// concurrent use.
type inbound struct {
	activity    *activity
	maxRequests int
	maxBytes    int
	meter       mailbox.Meter // counts the requests, too; nil for most transports

	mu           sync.Mutex // also guards the flags of each serving
	draining     bool       // all requests are rejected: the session is shutting down, or has ended
	shuttingDown bool       // Shutdown was called
	byID         map[jsonrpc.ID]*serving
	withdrawn    map[*serving]struct{} // requests of lost sessions, until their handlers return
	bytes        int                   // of requests whose answers the transport has not accepted
	answers      int                   // pending in the transport
	answerBytes  int                   // of answers that are pending in the transport or in a batch
	inputEnd     time.Time             // when the last input request ended; zero if there was none
}

// admit adds a request, or returns the error that rejects it.
func (in *inbound) admit(st *serving) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.draining:
		return closing()
	case len(in.byID)+len(in.withdrawn) >= in.maxRequests:
		return overloaded("%d requests are being served", len(in.byID)+len(in.withdrawn))
	case in.answers >= in.maxRequests:
		return overloaded("%d answers are pending", in.answers)
	case in.bytes+in.answerBytes > 0 && in.bytes+in.answerBytes+st.size > in.maxBytes:
		return overloaded("requests of %d bytes are being served, and answers of %d bytes are pending", in.bytes, in.answerBytes)
	case in.byID[st.req.ID] != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is being served"}
	case in.meter != nil && !in.meter.Take(st.size+mailbox.Overhead):
		return overloaded("too many requests of this client are being served")
	}
	in.byID[st.req.ID] = st
	in.bytes += st.size
	in.activity.begin()
	return nil
}

func overloaded(format string, args ...any) error {
	return &jsonrpc.Error{Code: CodeOverloaded, Message: "overloaded: " + fmt.Sprintf(format, args...)}
}

// settle removes a request whose answer has size bytes, and counts the answer. pending is the size
// of the answers that the transport has not accepted yet: if it is maxBytes or more, the answer is
// to be dropped and is not counted. silent is true if the request must not be answered.
func (in *inbound) settle(st *serving, size int) (silent bool, pending int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	silent = st.over
	st.over = true // drops further progress, except the report that the reporter holds
	if waitsForInput(st.req.Method) {
		in.inputEnd = time.Now()
	}
	if reporter := st.reporter.Load(); reporter != nil && !silent {
		in.mu.Unlock()
		reporter.Finish()
		in.mu.Lock()
	}
	if in.byID[st.req.ID] == st {
		delete(in.byID, st.req.ID)
	} else {
		delete(in.withdrawn, st)
	}
	pending = in.answerBytes
	if !silent {
		in.answers++
		if pending < in.maxBytes {
			in.answerBytes += size
		}
	}
	return silent, pending
}

// lastInput returns the current time if an input request of the server is being served. Otherwise it
// returns when the last one ended, or the zero time if there was none.
func (in *inbound) lastInput() time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, st := range in.byID {
		if !st.over && waitsForInput(st.req.Method) {
			return time.Now()
		}
	}
	return in.inputEnd
}

// waitsForInput reports whether the answer to a request of the server waits for the user or the
// model.
func waitsForInput(method string) bool {
	return method == mcp.MethodTasksResult || isInputRequest(method)
}

// finish stops counting a request and, unless silent, its answer of size bytes.
func (in *inbound) finish(st *serving, silent bool, size int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !silent {
		in.answers--
		in.answerBytes -= size
	}
	in.bytes -= st.size
	if in.meter != nil {
		in.meter.Add(-st.size - mailbox.Overhead)
	}
	in.activity.end()
}

// hold counts bytes of answers that are pending in a batch. A negative number releases them.
func (in *inbound) hold(bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.answerBytes += bytes
}

// cancel marks a request as not to be answered, and returns it. It returns nil if there is no such
// request, or if it cannot be cancelled.
func (in *inbound) cancel(id jsonrpc.ID) *serving {
	in.mu.Lock()
	defer in.mu.Unlock()
	st := in.byID[id]
	if st == nil || st.over || st.kept || st.req.Method == mcp.MethodInitialize {
		return nil
	}
	st.over = true
	return st
}

// withdraw marks the requests of a session and of earlier ones as not to be answered. It returns
// those that were not marked before. The value is true if the request can be cancelled. Their ids
// are free at once: the next session may use them before the handlers have returned.
func (in *inbound) withdraw(session uint32) (open map[*serving]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	open = map[*serving]bool{}
	for id, st := range in.byID {
		if st.session > session {
			continue
		}
		delete(in.byID, id)
		if in.withdrawn == nil {
			in.withdrawn = map[*serving]struct{}{}
		}
		in.withdrawn[st] = struct{}{}
		if !st.over {
			st.over = true
			open[st] = !st.kept
		}
	}
	return open
}

// keep makes a request immune to cancel. It returns false if the request must not be answered.
func (in *inbound) keep(st *serving) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	st.kept = true
	return !st.over
}

// progress returns the Reporter of a request. req may be a copy of the request with another token.
func (in *inbound) progress(st *serving, req *Request) *Reporter {
	in.mu.Lock()
	defer in.mu.Unlock()
	reporter := st.reporter.Load()
	if reporter == nil {
		reporter = newReporter(st.s, &st.s.cfg, st.ctx, req.ProgressToken())
		reporter.over = st.over
		st.reporter.Store(reporter)
	}
	return reporter
}

// abandon marks all requests as not to be answered, and returns them.
func (in *inbound) abandon() []*serving {
	in.mu.Lock()
	defer in.mu.Unlock()
	var open []*serving
	for _, st := range in.byID {
		if !st.over {
			st.over = true
			open = append(open, st)
		}
	}
	return open
}

// awaitPeer reports whether every handler waits for an answer of the peer.
func (in *inbound) awaitPeer() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, st := range in.byID {
		if st.asking.Load() == 0 {
			return false
		}
	}
	return true
}

// drain rejects further requests.
func (in *inbound) drain() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining = true
}

// shutdown rejects further requests, and ends those that only wait; see Request.EndOnShutdown.
func (in *inbound) shutdown() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining, in.shuttingDown = true, true
	for _, st := range in.byID {
		in.yield(st)
	}
}

// yield ends the context of a request that only waits, if Shutdown was called. mu must be held.
func (in *inbound) yield(st *serving) {
	if in.shuttingDown && st.yields.Load() && st.asking.Load() == 0 {
		st.until.Cancel(closing())
	}
}

// endOnShutdown implements Request.EndOnShutdown.
func (in *inbound) endOnShutdown(st *serving) {
	in.mu.Lock()
	defer in.mu.Unlock()
	st.yields.Store(true)
	in.yield(st)
}

// endAsking counts the end of a request to the peer whose answer the handler waited for.
func (in *inbound) endAsking(st *serving) {
	if st.asking.Add(-1) > 0 || !st.yields.Load() {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.yield(st)
}

// close rejects further requests, and returns those that are being served.
func (in *inbound) close() []*serving {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.draining = true
	open := make([]*serving, 0, len(in.byID)+len(in.withdrawn))
	for _, st := range in.byID {
		open = append(open, st)
	}
	for st := range in.withdrawn {
		open = append(open, st)
	}
	return open
}
