package engine

import (
	"context"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/mailbox"
)

// Set holds the exchanges of one connection, or all that belong to none. Its exported fields must
// not change once it is used. Its methods are safe for concurrent use.
type Set struct {
	// MaxRequests limits how many exchanges are in the Set, and how many answers are pending.
	// MaxBytes limits what they hold together. 0 means no limit.
	MaxRequests, MaxBytes int

	Meter    mailbox.Meter // counts the requests, too; nil for most transports
	Activity *Activity     // counts the exchanges

	// SharesIDs is true if the exchanges are those of several peers, which may use the same ids.
	SharesIDs bool

	mu           sync.Mutex // also guards the flags of each Exchange
	draining     bool       // all are rejected: the owner is shutting down, or has ended
	shuttingDown bool       // Shutdown was called
	byID         map[jsonrpc.ID]*Exchange
	others       map[*Exchange]struct{} // those whose ids others may have, too, and withdrawn ones
	bytes        int                    // of requests whose answers the transport has not accepted
	answers      int                    // pending in the transport
	answerBytes  int                    // of answers that are pending in the transport or in a batch
	inputEnd     time.Time              // when the last input request ended; zero if there was none
}

// Enter admits an exchange, or returns the error that rejects it.
func (s *Set) Enter(x *Exchange) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, held := x.Reply.ID(), s.bytes+s.answerBytes
	switch count := len(s.byID) + len(s.others); {
	case s.draining:
		return Closing()
	case s.MaxRequests > 0 && count >= s.MaxRequests:
		return Overloaded("%d requests are being served", count)
	case s.MaxRequests > 0 && s.answers >= s.MaxRequests:
		return Overloaded("%d answers are pending", s.answers)
	case s.MaxBytes > 0 && held > 0 && held+x.Size > s.MaxBytes:
		return Overloaded("requests of %d bytes are being served, and answers of %d bytes are pending", s.bytes, s.answerBytes)
	case s.byID[id] != nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is being served"}
	case s.Meter != nil && !s.Meter.Take(x.Size+mailbox.Overhead):
		return Overloaded("too many requests of this client are being served")
	}
	if x.Set = s; s.SharesIDs {
		s.addOther(x)
	} else {
		if s.byID == nil {
			s.byID = map[jsonrpc.ID]*Exchange{}
		}
		s.byID[id] = x
	}
	s.bytes += x.Size
	s.Activity.Begin()
	return nil
}

// addOther adds an exchange that is not found by its id.
func (s *Set) addOther(x *Exchange) {
	if s.others == nil {
		s.others = map[*Exchange]struct{}{}
	}
	s.others[x] = struct{}{}
}

// settle counts the answer of an exchange, which has size bytes, in place of the exchange. silent
// is true if there must be no answer. dropped is true if the answer is to be replaced by a short
// error, which is not counted, because answers of pending bytes are pending.
func (s *Set) settle(x *Exchange, size int) (silent, dropped bool, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent = x.over
	x.over = true // drops further progress, except the report that is held back
	if x.Input {
		s.inputEnd = time.Now()
	}
	if !silent {
		progress := x.progress
		s.mu.Unlock()
		if progress != nil {
			progress.Finish()
		}
		x.sending.Lock()
		x.ended.Store(true)
		x.sending.Unlock()
		s.mu.Lock()
	}
	s.delete(x)
	pending = s.answerBytes
	if dropped = s.MaxBytes > 0 && pending >= s.MaxBytes; !silent {
		s.answers++
		if !dropped {
			s.answerBytes += size
		}
	}
	return silent, dropped && !silent, pending
}

// delete removes an exchange. mu must be held.
func (s *Set) delete(x *Exchange) {
	if id := x.Reply.ID(); s.byID[id] == x {
		delete(s.byID, id)
	} else {
		delete(s.others, x)
	}
}

// leave stops counting an exchange and, unless silent, its answer of size bytes.
func (s *Set) leave(x *Exchange, silent bool, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if silent {
		s.delete(x)
	} else {
		s.answers--
		s.answerBytes -= size
	}
	s.bytes -= x.Size
	if s.Meter != nil {
		s.Meter.Add(-x.Size - mailbox.Overhead)
	}
	s.Activity.End()
}

// Hold counts bytes of answers that are pending in a batch. A negative number releases them.
func (s *Set) Hold(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answerBytes += bytes
}

// LastInput returns the current time if an input request of the peer is being served. Otherwise it
// returns when the last one ended, or the zero time if there was none.
func (s *Set) LastInput() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byID {
		if !x.over && x.Input {
			return time.Now()
		}
	}
	return s.inputEnd
}

// WaitsForInput reports whether the answer to a request waits for the user or the model.
func WaitsForInput(method string) bool {
	return method == mcp.MethodTasksResult || IsInput(method)
}

// IsInput reports whether a user or a model answers requests of a method.
func IsInput(method string) bool {
	return method == mcp.MethodElicitationCreate || method == mcp.MethodSamplingCreateMessage
}

// Cancel marks an exchange as not to be answered, and returns it for [Exchange.Interrupt]. It
// returns nil if there is none with the id, or if it cannot be cancelled.
func (s *Set) Cancel(id jsonrpc.ID) *Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.byID[id]
	if x == nil || x.over || x.Kept {
		return nil
	}
	x.over = true
	return x
}

// Withdraw marks the exchanges of a session and of earlier ones as not to be answered. It returns
// those that were not marked before. The value is true for [Exchange.Interrupt], and false if the
// exchange cannot be cancelled. Their ids are free at once: the next session may use them before
// the handlers have returned.
func (s *Set) Withdraw(session uint32) (open map[*Exchange]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open = map[*Exchange]bool{}
	for id, x := range s.byID {
		if x.Session > session {
			continue
		}
		delete(s.byID, id)
		s.addOther(x)
		if !x.over {
			x.over = true
			open[x] = !x.Kept
		}
	}
	return open
}

// AwaitsPeer reports whether every handler waits for an answer of the peer.
func (s *Set) AwaitsPeer() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.byID {
		if x.asking.Load() == 0 {
			return false
		}
	}
	return true
}

// Refuse rejects further exchanges.
func (s *Set) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
}

// Shutdown rejects further exchanges, and ends those that only wait; see [Exchange.Yield].
func (s *Set) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining, s.shuttingDown = true, true
	for x := range s.all {
		s.yield(x)
	}
}

// yield ends the context of an exchange that only waits, if Shutdown was called. mu must be held.
func (s *Set) yield(x *Exchange) {
	if s.shuttingDown && x.yields.Load() && x.asking.Load() == 0 {
		x.Reply.Cancel(Closing())
	}
}

// Close rejects further exchanges, and ends the contexts of all others with cause.
func (s *Set) Close(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for x := range s.all {
		x.Reply.Cancel(cause)
	}
}

// all iterates over all exchanges. mu must be held.
func (s *Set) all(yield func(*Exchange) bool) {
	for _, x := range s.byID {
		if !yield(x) {
			return
		}
	}
	for x := range s.others {
		if !yield(x) {
			return
		}
	}
}

// Abandon answers all exchanges with [Closing], and ends their contexts with cause, until ctx ends.
func (s *Set) Abandon(ctx context.Context, cause error) {
	var open []*Exchange
	s.mu.Lock()
	for _, x := range s.byID {
		if !x.over {
			x.over = true
			open = append(open, x)
		}
	}
	s.mu.Unlock()
	for _, x := range open {
		x.Reply.Cancel(cause)
		x.ended.Store(true)
		if progress := x.reported(); progress != nil {
			progress.Stop()
		}
		if x.Reply.Answer(ctx, nil, Closing()) != nil {
			return
		}
	}
}
