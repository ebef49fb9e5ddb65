package streamable

import (
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// id returns the id with the given JSON text.
func id(t *testing.T, text string) (id jsonrpc.ID) {
	t.Helper()
	if err := codec.Unmarshal([]byte(text), &id); err != nil {
		t.Fatal(err)
	}
	return id
}

// limitedTo returns a Handler with a limit of all requests.
func limitedTo(n int) *Handler {
	return &Handler{o: HandlerOptions{Limits: Limits{Requests: n}}}
}

func TestStreamsGiveEachRequestOneStream(t *testing.T) {
	one, two, three := id(t, "1"), id(t, "2"), id(t, "3")
	s := newStreams(4, true)
	s.usage = &usage{h: limitedTo(9), maxRequests: 3}
	st, err := s.begin([]jsonrpc.ID{one, two}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, rest := s.byRequest[two], s.named(standing); got != st || rest == nil || rest.id != standing {
		t.Errorf("request 2 belongs to %v, the standing stream is %v", got, rest)
	}
	if !s.number(st) || len(st.requests) != 2 || st.id == "" || s.named(st.id) != st {
		t.Errorf("the stream of %v has the name %q", st.requests, st.id)
	}
	if _, err := s.begin([]jsonrpc.ID{three, two}, nil, nil); err != errIDInUse {
		t.Errorf("id in use: got %v, want %v", err, errIDInUse)
	}
	if got := s.byRequest[three]; got != nil {
		t.Error("a rejected request belongs to a stream")
	}
	if _, err := s.begin([]jsonrpc.ID{three, id(t, "4"), id(t, "5")}, nil, nil); err != errTooManyStreams {
		t.Errorf("five requests: got %v, want %v", err, errTooManyStreams)
	}
	if _, err := s.begin([]jsonrpc.ID{three, id(t, "4")}, nil, nil); err != errTooManyRequests {
		t.Errorf("four requests of the principal: got %v, want %v", err, errTooManyRequests)
	}
	if got := s.byRequest[three]; got != nil || s.usage.requests.Load() != 2 {
		t.Errorf("a rejected request belongs to a stream, or %d requests count", s.usage.requests.Load())
	}
	s.answered(one)
	if got := s.byRequest[one]; got != nil || !s.serving() {
		t.Error("the answered request is still served, or the other one is not")
	}
	s.remove(st, st.requests...)
	if s.serving() || s.named(st.id) != nil {
		t.Error("the stream was not removed")
	}
	if n := s.usage.requests.Load(); n != 0 {
		t.Errorf("%d requests count, want none", n)
	}
	if _, err := s.begin([]jsonrpc.ID{one, two}, nil, nil); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.answered(one)
	if n := s.usage.requests.Load(); n != 0 {
		t.Errorf("%d requests count after the end, want none", n)
	}
	if _, err := s.begin([]jsonrpc.ID{three}, nil, nil); err != transport.ErrClosed {
		t.Errorf("a stream after the end: %v", err)
	}
}

func TestStreamsDoNotReuseNames(t *testing.T) {
	s := newStreams(3, true)
	s.usage = &usage{h: limitedTo(9), maxRequests: 1}
	s.restore([]PersistedStream{
		{Stream: "zzzzzzzzz"},
		{Stream: standing, Requests: []byte("[]"), Last: Event{Number: 7}},
	})
	st, err := s.begin([]jsonrpc.ID{id(t, "1")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.number(st); st.id != "1000000000" {
		t.Errorf("the stream has the name %q, want 1000000000", st.id)
	}
	if rest := s.named(standing); rest.last != 7 || rest.taken != 7 {
		t.Errorf("standing stream restored at %d, taken to %d, want 7", rest.last, rest.taken)
	}
}

func TestStreamNumbersItsMessages(t *testing.T) {
	answer := func(st *serverStream, i int) outgoing {
		return outgoing{text: []byte("answer"), of: &st.requests[i], answer: true}
	}
	s := newStreams(3, false)
	st := &serverStream{unanswered: 1, requests: make([]incoming, 1)}
	if _, alone := st.next(answer(st, 0)); !alone {
		t.Error("a single answer is an event")
	}
	st = &serverStream{unanswered: 2, requests: make([]incoming, 2)}
	for i, m := range []outgoing{{text: []byte("note")}, answer(st, 0), answer(st, 1)} {
		e, alone := st.next(m)
		first := s.number(st)
		if alone || e.Number != uint64(i+1) || e.Last != (i == 2) || first != (i == 0) {
			t.Errorf("message %d: %+v, alone %v, first %v", i, e, alone, first)
		}
		st.last = e.Number
	}
}
