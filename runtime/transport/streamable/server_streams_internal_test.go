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

func TestStreamsGiveEachRequestOneStream(t *testing.T) {
	one, two, three := id(t, "1"), id(t, "2"), id(t, "3")
	s := newStreams(4, true)
	s.usage = &usage{maxRequests: 3}
	st, err := s.begin([]jsonrpc.ID{one, two}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, rest := s.of(two); got != st || rest == nil || rest.id != standing {
		t.Errorf("request 2 belongs to %v, the standing stream is %v", got, rest)
	}
	if requests, ok := s.number(st); !ok || len(requests) != 2 || st.id == "" || s.named(st.id) != st {
		t.Errorf("the stream of %v has the name %q", requests, st.id)
	}
	if _, err := s.begin([]jsonrpc.ID{three, two}, nil, nil); err != errIDInUse {
		t.Errorf("id in use: got %v, want %v", err, errIDInUse)
	}
	if got, _ := s.of(three); got != nil {
		t.Error("a rejected request belongs to a stream")
	}
	if _, err := s.begin([]jsonrpc.ID{three, id(t, "4"), id(t, "5")}, nil, nil); err != errTooManyStreams {
		t.Errorf("five requests: got %v, want %v", err, errTooManyStreams)
	}
	if _, err := s.begin([]jsonrpc.ID{three, id(t, "4")}, nil, nil); err != errTooManyRequests {
		t.Errorf("four requests of the principal: got %v, want %v", err, errTooManyRequests)
	}
	if got, _ := s.of(three); got != nil || s.usage.requests.Load() != 2 {
		t.Errorf("a rejected request belongs to a stream, or %d requests count", s.usage.requests.Load())
	}
	s.answered(one)
	if got, _ := s.of(one); got != nil || !s.serving() {
		t.Error("the answered request is still served, or the other one is not")
	}
	s.remove(st, two)
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
	s.usage = &usage{maxRequests: 1}
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
	answer := transport.Message{Text: []byte("answer"), Answer: true}
	s := newStreams(3, false)
	st := &serverStream{unanswered: 1, requests: []jsonrpc.ID{id(t, "1")}}
	if _, alone := st.next(answer); !alone {
		t.Error("a single answer is an event")
	}
	st = &serverStream{unanswered: 2, requests: []jsonrpc.ID{id(t, "1"), id(t, "2")}}
	for i, m := range []transport.Message{{Text: []byte("note")}, answer, answer} {
		e, alone := st.next(m)
		requests, first := s.number(st)
		if alone || e.Number != uint64(i+1) || e.Last != (i == 2) || first != (i == 0) || first && len(requests) != 2 {
			t.Errorf("message %d: %+v, alone %v, first %v with %v", i, e, alone, first, requests)
		}
		st.last = e.Number
	}
}
