package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/streamabletest"
)

func open(t *testing.T, path string, o boltstore.Options) *boltstore.Store {
	t.Helper()
	s, err := boltstore.Open(path, o)
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
		return open(t, filepath.Join(t.TempDir(), "events.db"), boltstore.Options{MaxSessionBytes: sessionBytes})
	})
	path := filepath.Join(t.TempDir(), "events.db")
	var last *boltstore.Store
	streamabletest.RunSessions(t, func(t *testing.T) streamable.SessionStore {
		if last != nil {
			last.Close()
		}
		last = open(t, path, boltstore.Options{})
		return last
	})
}

// The age of a session counts from its last use, including the time in which the store is closed.
func TestUnusedSessionsExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		var s *boltstore.Store
		reopen := func() {
			if s != nil {
				s.Close()
			}
			s = open(t, path, boltstore.Options{MaxAge: time.Hour})
		}
		reopen()
		for _, session := range []string{"used", "unused"} {
			if err := s.PersistOpening(t.Context(), session, streamable.Opening{}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(session string, want error) {
			t.Helper()
			if _, _, err := s.Load(t.Context(), session); !errors.Is(err, want) {
				t.Errorf("session %q: %v, want %v", session, err, want)
			}
		}
		for range 3 {
			time.Sleep(50 * time.Minute)
			if err := s.Touch(t.Context(), []string{"used", "unknown"}); err != nil {
				t.Error(err)
			}
			check("used", nil)
			check("unknown", streamable.ErrUnknown)
		}
		check("unused", streamable.ErrUnknown)
		reopen()
		check("used", nil)
		check("unused", streamable.ErrUnknown)
		s.Close()
		time.Sleep(61 * time.Minute)
		reopen()
		check("used", streamable.ErrUnknown)

		// Deleted sessions free space while the store is open.
		if err := s.Append(t.Context(), "unused", "1", streamable.Event{Number: 1, Text: make([]byte, 1<<20)}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if err := s.Compact(); err != nil {
			t.Error(err)
		}
		if size := sizeOf(t, path); size > 1<<20 {
			t.Errorf("the file has %d bytes", size)
		}
		s.Close()
	})
}

func sizeOf(t *testing.T, path string) int {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}

// The file has at most twice MaxBytes, and 128 KiB for pages of bbolt.
func TestFileSizeIsLimited(t *testing.T) {
	const limit = 1 << 20
	ctx := context.Background()
	for name, fill := range map[string]func(s *boltstore.Store, n int) error{
		"answered requests": func(s *boltstore.Store, n int) error {
			stream := fmt.Sprint(n)
			return errors.Join(s.Begin(ctx, "s", stream, make([]byte, 20<<10)),
				s.Append(ctx, "s", stream, streamable.Event{Number: 1, Text: []byte("{}"), Last: true}))
		},
		"events of one session": func(s *boltstore.Store, n int) error {
			return s.Append(ctx, "s", "1", streamable.Event{Number: uint64(n + 1), Text: make([]byte, 20<<10)})
		},
		"events of many sessions": func(s *boltstore.Store, n int) error {
			return s.Append(ctx, fmt.Sprint(n), "1", streamable.Event{Number: 1, Text: make([]byte, 20<<10)})
		},
	} {
		path := filepath.Join(t.TempDir(), "events.db")
		s := open(t, path, boltstore.Options{MaxBytes: limit, MaxSessionBytes: limit / 2})
		for n := range 300 {
			if err := fill(s, n); err != nil {
				t.Fatal(err)
			}
		}
		if size := sizeOf(t, path); size > 2*limit+128<<10 {
			t.Errorf("%s: the file has %d bytes, with a limit of %d", name, size, limit)
		}
	}
}

// Above MaxBytes, the largest session loses events.
func TestLargestSessionLosesEvents(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "events.db"), boltstore.Options{MaxBytes: 100 << 10})
	for n := range 8 {
		for session, size := range map[string]int{"small": 1 << 10, "large": 40 << 10} {
			if err := s.Append(t.Context(), session, "1", streamable.Event{Number: uint64(n + 1), Text: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for session, want := range map[string]int{"small": 8, "large": 2} {
		if events, err := s.Events(t.Context(), session, "1", 0); len(events) != want || err != nil {
			t.Errorf("%s has %d events, want %d; %v", session, len(events), want, err)
		}
	}
}

// Backup and Compact work while the store is in use.
func TestBackupAndCompactDuringWrites(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "events.db"), filepath.Join(dir, "copy.db")
	s := open(t, path, boltstore.Options{})
	if err := s.PersistOpening(t.Context(), "s", streamable.Opening{Principal: "ann"}); err != nil {
		t.Fatal(err)
	}
	event := func(n int) streamable.Event { return streamable.Event{Number: uint64(n), Text: make([]byte, 10<<10)} }
	for n := range 100 {
		if err := errors.Join(s.Append(t.Context(), "s", "1", event(n+1)), s.Append(t.Context(), "other", "1", event(n+1))); err != nil {
			t.Fatal(err)
		}
	}
	s.Forget(t.Context(), "other")
	before := sizeOf(t, path)
	stop := make(chan struct{})
	var writer sync.WaitGroup
	next := 101
	writer.Go(func() { // ends when stop is closed
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Append(t.Context(), "s", "1", event(next)); err != nil {
				t.Error(err)
				return
			}
			next++
		}
	})
	if err := s.Backup(copied); err != nil {
		t.Error(err)
	}
	if err := s.Compact(); err != nil {
		t.Error(err)
	}
	close(stop)
	writer.Wait()
	if err := s.Backup(path); err == nil {
		t.Error("the store's own file was replaced")
	}
	if _, err := boltstore.Open(path, boltstore.Options{}); !errors.Is(err, boltstore.ErrLocked) {
		t.Errorf("after Compact, another process: %v", err)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	check := func(s *boltstore.Store, atLeast int) {
		t.Helper()
		opening, streams, err := s.Load(t.Context(), "s")
		if err != nil || opening.Principal != "ann" || len(streams) != 1 || streams[0].Last.Number < uint64(atLeast) {
			t.Errorf("%+v, %+v, %v", opening, streams, err)
		}
	}
	check(s, next-1)
	if after := sizeOf(t, path); after > before*3/4+(next-100)*20<<10 {
		t.Errorf("the file had %d bytes, and after Compact %d with %d more events", before, after, next-100)
	}
	s.Close()
	check(open(t, path, boltstore.Options{}), next-1)
	check(open(t, copied, boltstore.Options{}), 100)
	for name, err := range map[string]error{"Health": s.Health(), "Compact": s.Compact(), "Backup": s.Backup(copied)} {
		if !errors.Is(err, boltstore.ErrClosed) {
			t.Errorf("%s of a closed Store: %v", name, err)
		}
	}
}

func TestOpenFailsIfFileIsInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	s := open(t, path, boltstore.Options{})
	if _, err := boltstore.Open(path, boltstore.Options{}); !errors.Is(err, boltstore.ErrLocked) {
		t.Errorf("a second Store: %v", err)
	}
	s.Close()
	if err := s.Append(t.Context(), "s", "1", streamable.Event{Number: 1}); !errors.Is(err, boltstore.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
}
