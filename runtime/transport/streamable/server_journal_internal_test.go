package streamable

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// failingStore is a SessionStore whose Append fails a number of times. It records its calls.
type failingStore struct {
	SessionStore
	fail   int
	events []Event
	calls  []string
}

func (s *failingStore) Append(_ context.Context, _, _ string, e Event) error {
	if s.fail--; s.fail >= 0 {
		return errors.New("disk full")
	}
	s.events = append(s.events, e)
	return nil
}

func (s *failingStore) Begin(context.Context, string, string, []byte) error {
	s.calls = append(s.calls, "begin")
	return nil
}

func (s *failingStore) PersistOpening(_ context.Context, _ string, o Opening) error {
	s.calls = append(s.calls, "open"+string(o.State))
	return nil
}

func (s *failingStore) PersistState(context.Context, string, []byte) error {
	s.calls = append(s.calls, "state")
	return nil
}

func newJournal(store EventStore) (j *journal, end func()) {
	done := make(chan struct{})
	o := &HandlerOptions{Sessions: Sessions{Store: store}, Limits: Limits{State: 10}, Logger: slog.New(slog.DiscardHandler)}
	return &journal{h: &Handler{stores: context.Background()}, o: o, id: "session", done: done}, func() { close(done) }
}

func TestJournalStoresAnErrorInPlaceOfALostAnswer(t *testing.T) {
	store := &failingStore{fail: 1}
	j, _ := newJournal(store)
	if err := j.append(t.Context(), "1", Event{Number: 1, Text: []byte("{}"), Last: true}, id(t, "1")); err == nil {
		t.Error("the error of the store is lost")
	}
	if len(store.events) != 1 || !store.events[0].Last || jsonrpcKind(store.events[0].Text) != jsonrpc.KindErrorResponse {
		t.Errorf("stored %+v", store.events)
	}
}

func TestJournalAnswersInterruptedRequests(t *testing.T) {
	store := &failingStore{}
	j, _ := newJournal(store)
	requests := encodeIDs([]incoming{{id: id(t, "1")}, {id: id(t, `"two"`)}})
	j.interrupt(t.Context(), PersistedStream{Stream: standing, Requests: requests})
	j.interrupt(t.Context(), PersistedStream{Stream: "1", Requests: requests, Last: Event{Last: true}})
	j.interrupt(t.Context(), PersistedStream{Stream: "2", Requests: requests, Last: Event{Number: 4}})
	if e := store.events; len(e) != 2 || e[0].Number != 5 || e[0].Last || e[1].Number != 6 || !e[1].Last {
		t.Errorf("stored %+v", e)
	}
}

func TestJournalPersistsNothingAfterTheEnd(t *testing.T) {
	store := &failingStore{}
	j, end := newJournal(store)
	j.beginStanding()
	j.open(t.Context(), Opening{})
	if err := j.persistState(t.Context(), make([]byte, 11)); !errors.Is(err, transport.ErrTooLong) {
		t.Errorf("long state: got %v, want %v", err, transport.ErrTooLong)
	}
	if err := j.persistState(t.Context(), nil); err != nil {
		t.Error(err)
	}
	end()
	j.beginStanding()
	j.open(t.Context(), Opening{})
	if err := j.persistState(t.Context(), nil); err != transport.ErrClosed {
		t.Errorf("after the end: got %v, want %v", err, transport.ErrClosed)
	}
	if want := []string{"begin", "open", "state"}; !slices.Equal(store.calls, want) {
		t.Errorf("calls %q, want %q", store.calls, want)
	}
}

func TestJournalPersistsEarlyStateWithOpening(t *testing.T) {
	store := &failingStore{}
	j, _ := newJournal(store)
	for _, state := range []string{" one", " two"} {
		if err := j.persistState(t.Context(), []byte(state)); err != nil {
			t.Error(err)
		}
	}
	j.open(t.Context(), Opening{})
	if err := j.persistState(t.Context(), []byte("three")); err != nil {
		t.Error(err)
	}
	if want := []string{"open two", "state"}; !slices.Equal(store.calls, want) {
		t.Errorf("calls %q, want %q", store.calls, want)
	}
}

func jsonrpcKind(text []byte) jsonrpc.Kind {
	m, err := jsonrpc.ParseReceived(text)
	if err != nil {
		return 0
	}
	return m.Kind
}
