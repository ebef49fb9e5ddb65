package boltevents_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltevents"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/streamabletest"
)

func open(t *testing.T, path string, o boltevents.Options) *boltevents.Store {
	t.Helper()
	s, err := boltevents.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	streamabletest.Run(t, func(t *testing.T, sessionBytes int) streamable.EventStore {
		return open(t, filepath.Join(t.TempDir(), "events.db"), boltevents.Options{MaxSessionBytes: sessionBytes})
	})
	path := filepath.Join(t.TempDir(), "events.db")
	var last *boltevents.Store
	streamabletest.RunSessions(t, func(t *testing.T) streamable.SessionStore {
		if last != nil {
			last.Close()
		}
		last = open(t, path, boltevents.Options{})
		return last
	})
}

func TestOldSessionsAreDropped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	for _, test := range []struct {
		age  time.Duration
		want error
	}{{time.Hour, nil}, {time.Nanosecond, streamable.ErrUnknown}} {
		s := open(t, path, boltevents.Options{})
		if err := s.Append(t.Context(), "s", "1", streamable.Event{Number: 1, Text: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		s.Close()
		for start := time.Now().Unix(); test.want != nil && time.Now().Unix() == start; {
			time.Sleep(10 * time.Millisecond) // the age is in whole seconds
		}
		s = open(t, path, boltevents.Options{MaxAge: test.age})
		if _, err := s.Events(t.Context(), "s", "1", 0); !errors.Is(err, test.want) {
			t.Errorf("with an age of %v: %v", test.age, err)
		}
		s.Close()
	}
}

func TestOneStorePerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, boltevents.Options{})
	if _, err := boltevents.Open(path, boltevents.Options{}); !errors.Is(err, boltevents.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	s.Close()
	if err := s.Append(t.Context(), "s", "1", streamable.Event{Number: 1}); !errors.Is(err, boltevents.ErrClosed) {
		t.Errorf("after closing: %v", err)
	}
}
