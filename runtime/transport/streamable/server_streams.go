package streamable

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// standing is the name of the stream for messages that belong to no request. Clients open it with
// GET.
const standing = "0"

// streams has the open streams of a session: one for each POST with requests, until all of them are
// answered, and the standing stream, which never ends. Each unanswered request belongs to exactly
// one stream. A stream has a name once it has events. Names are not used again.
type streams struct {
	max   int    // limit of the streams with requests, and of the unanswered requests
	usage *usage // counts the unanswered requests
	place int    // 1 if the conversation has a place, which counts as one of them; otherwise 0

	mu        sync.Mutex
	open      int // number of streams with requests
	byName    map[string]*serverStream
	byRequest map[jsonrpc.ID]*serverStream
	next      uint64 // the next name, as a number
	closed    bool   // settle was called: requests do not count any more
}

// newStreams returns the streams of a new session, or of a conversation without a session, which
// has no standing stream.
func newStreams(max int, session bool) streams {
	byName := map[string]*serverStream{}
	if session {
		byName[standing] = &serverStream{id: standing, numbered: true}
	}
	return streams{max: max, byName: byName, byRequest: map[jsonrpc.ID]*serverStream{}, next: 1}
}

// begin opens a stream for requests, with the connection k. opening has the params of initialize if
// that is the request, otherwise nil.
func (s *streams) begin(ids []jsonrpc.ID, opening []byte, k *sink) (*serverStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, transport.ErrClosed
	case s.open >= s.max,
		len(s.byRequest)+len(ids) > s.max: // a batch has many requests, and one stream
		return nil, errTooManyStreams
	}
	st := &serverStream{unanswered: len(ids), opening: opening, outlet: outlet{sink: k}}
	if st.requests = st.single[:]; len(ids) > 1 {
		st.requests = make([]incoming, len(ids))
	}
	for i, id := range ids {
		st.requests[i].st, st.requests[i].id = st, id
		if s.byRequest[id] != nil { // also if the same batch has the id twice
			for _, id := range ids[:i] {
				delete(s.byRequest, id)
			}
			return nil, errIDInUse
		}
		s.byRequest[id] = st
	}
	if err := s.usage.serve(len(ids) - s.place); err != nil {
		for _, id := range ids {
			delete(s.byRequest, id)
		}
		return nil, err
	}
	s.open++
	return st, nil
}

// number makes st an event stream, which its client can resume by its name. It returns false if it
// already is one. The order of the stream must be held.
func (s *streams) number(st *serverStream) (begins bool) {
	if st.numbered {
		return false
	}
	st.numbered = true
	s.mu.Lock()
	defer s.mu.Unlock()
	st.id = strconv.FormatUint(s.next, 36)
	s.next++
	if !st.removed {
		s.byName[st.id] = st
	}
	return true
}

// answered removes an answered request. Its id may be used again.
func (s *streams) answered(id jsonrpc.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(id)
}

// drop removes a request, if it is there. mu must be held.
func (s *streams) drop(id jsonrpc.ID) {
	if _, ok := s.byRequest[id]; ok && !s.closed && len(s.byRequest) > s.place {
		s.usage.served(1)
	}
	delete(s.byRequest, id)
}

// remove removes a stream, and those of its requests that are not answered.
func (s *streams) remove(st *serverStream, requests ...incoming) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range requests {
		s.drop(requests[i].id)
	}
	delete(s.byName, st.id)
	if !st.removed {
		st.removed = true
		s.open--
	}
}

// named returns an open event stream, or nil.
func (s *streams) named(name string) *serverStream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// serving reports whether there are unanswered requests.
func (s *streams) serving() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byRequest) > 0
}

// restore continues the names and the standing stream of an earlier process. It is called before
// other methods.
func (s *streams) restore(stored []PersistedStream) {
	// The store may have dropped streams. Names of earlier processes count from one, or from an
	// earlier time.
	s.next = uint64(time.Now().UnixMilli())
	for _, stream := range stored {
		if n, err := strconv.ParseUint(stream.Stream, 36, 64); err == nil {
			s.next = max(s.next, n+1)
		}
		if stream.Stream == standing {
			st := s.byName[standing]
			st.last = stream.Last.Number
			// A connection has taken events, and its client sends Last-Event-ID.
			if stream.Requests != nil {
				st.taken = st.last
			}
		}
	}
}

// settle waits until no event is being added to a stream. The requests do not count any more, and no
// stream begins after that.
func (s *streams) settle() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		s.usage.served(max(len(s.byRequest)-s.place, 0))
	}
	all := slices.AppendSeq(slices.Collect(maps.Values(s.byName)), maps.Values(s.byRequest))
	s.mu.Unlock()
	for _, st := range all {
		st.settle()
	}
}
