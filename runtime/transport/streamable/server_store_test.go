package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// An answer that could not be stored is lost with its connection. Resuming its stream fails, so
// that the client does not retry forever.
func TestResumingStreamOfUnstoredAnswerFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		defer store.Close()
		failing := &failingStore{SessionStore: store}
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: failing}, Streams: streamable.Streams{After: -1}})
		defer s.stop()
		id := s.openSession(initialize)
		for name, fail := range map[string]func() error{
			"fails":  func() error { return errors.New("disk full") },
			"panics": func() error { panic("no") },
		} {
			stream := s.events("POST", call(1, "wait"), "MCP-Session-Id", id)
			<-s.tools.started
			first, err := stream.next()
			if err != nil {
				t.Fatal(err)
			}
			stream.body.Close()
			synctest.Wait()
			failing.append = fail
			s.tools.release <- struct{}{}
			synctest.Wait()
			failing.append = nil
			if got := s.status("GET", "", "MCP-Session-Id", id, "Last-Event-ID", first.ID); got != 400 {
				t.Errorf("the store %s: resuming the stream has status %d", name, got)
			}
		}
		// If an earlier event was stored, the client receives that first.
		stream := s.events("POST", call(2, "log"), "MCP-Session-Id", id)
		for range 2 {
			stream.next()
		}
		if got := stream.messages(); len(got) != 3 {
			t.Errorf("the rest is %q", got)
		}
		if got := s.status("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id); got != 200 {
			t.Errorf("a stream whose events were all stored: %d", got)
		}
	})
}

// A stream whose events cannot be read now is not reported as lost.
func TestFailedReadOfEventsReturnsStatus503(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		defer store.Close()
		failing := &failingStore{SessionStore: store}
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: failing}})
		defer s.stop()
		id := s.openSession(initialize)
		stream := s.events("POST", call(1, "log"), "MCP-Session-Id", id)
		stream.messages()
		synctest.Wait()
		failing.events = func() error { return errors.New("no leader") }
		if got := s.status("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id); got != 503 {
			t.Errorf("while the store fails: %d", got)
		}
		failing.events = nil
		if got := s.status("GET", "", "MCP-Session-Id", id, "Last-Event-ID", stream.id); got != 200 {
			t.Errorf("after the store has recovered: %d", got)
		}
	})
}

// An answer that is too long for the store is sent on the open connection. A client that resumes
// the stream receives an error instead.
func TestResumedStreamReportsOverlongAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, streamable.HandlerOptions{
			Streams: streamable.Streams{After: -1}, Sessions: streamable.Sessions{Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: 4 << 10})},
		})
		id := s.openSession(initialize)
		long := strings.Replace(call(1, "echo"), `"n":1`, `"n":"`+strings.Repeat("x", 5<<10)+`"`, 1)
		stream := s.events("POST", long, "MCP-Session-Id", id)
		first, err := stream.next()
		if err != nil {
			t.Fatal(err)
		}
		if got := stream.message(); len(got) < 5<<10 {
			t.Errorf("the answer is %s", got)
		}
		again := s.events("GET", "", "MCP-Session-Id", id, "Last-Event-ID", first.ID)
		if got := again.messages(); len(got) != 1 || !strings.Contains(got[0], `"id":1,"error":{"code":-32603`) {
			t.Errorf("the resumed stream has %q", got)
		}
	})
}

// A session in use does not expire in the store, even if none of its data is written.
func TestSessionInUseDoesNotExpireInStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := boltstore.Open(path, boltstore.Options{MaxAge: 20 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Timeouts: streamable.Timeouts{Idle: -1}})
		id, listening := s.openSession(initialize), s.openSession(initialize)
		standing := s.events("GET", "", "MCP-Session-Id", listening)
		go func() { // ends with the session
			for {
				if _, err := standing.next(); err != nil {
					return
				}
			}
		}()
		for range 3 {
			time.Sleep(10 * time.Minute)
			if got := s.text(call(1, "echo"), "MCP-Session-Id", id); got != result(1) {
				t.Errorf("a call: %s", got)
			}
		}
		time.Sleep(15 * time.Minute)
		s.text(call(1, "echo"), "MCP-Session-Id", id)
		if err := s.handler.Shutdown(testContext(t)); err != nil {
			t.Error(err)
		}
		s.stop()
		time.Sleep(15 * time.Minute)
		s = serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		defer s.stop()
		for _, id := range []string{id, listening} {
			if got := s.status("POST", call(1, "echo"), "MCP-Session-Id", id); got != 200 {
				t.Errorf("after the restart: %d", got)
			}
		}
	})
}

// slowBegin is a store whose Begin takes a second. It records which sessions have streams.
type slowBegin struct {
	streamable.SessionStore
	sessions sync.Map
}

func (s *slowBegin) Begin(ctx context.Context, session, stream string, requests []byte) error {
	time.Sleep(time.Second)
	s.sessions.Store(session, true)
	return s.SessionStore.Begin(ctx, session, stream, requests)
}

func (s *slowBegin) Forget(ctx context.Context, session string) error {
	s.sessions.Delete(session)
	return s.SessionStore.Forget(ctx, session)
}

// A request whose answer becomes an event stream only after the session has ended does not store
// the session again.
func TestLateStreamDoesNotStoreEndedSession(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		bolt := openStore(t, path)
		defer bolt.Close()
		store := &slowBegin{SessionStore: bolt}
		s := &testServer{t: t, tools: newTools()}
		s.handler = streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
			conn.(ability.Pusher).Push(conn, func(m transport.Message, err error) {
				switch {
				case err != nil:
				case strings.Contains(string(m.Text), "initialize"):
					text := `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
					if err := m.Reply.Answer(t.Context(), []byte(text), nil); err != nil {
						t.Error(err)
					}
				default:
					if !streamable.Disconnect(m.Context) {
						t.Error("the request cannot be disconnected")
					}
					go conn.Close()             // ends with the POST
					time.Sleep(2 * time.Second) // longer than Timeouts.Flush: Close waits for this function only
				}
			})
		}, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Streams: streamable.Streams{After: time.Hour}})
		s.serveHTTP(plain)
		defer s.stop()
		id := s.do("POST", initialize).Header.Get("MCP-Session-Id")
		s.do("POST", call(1, "echo"), "MCP-Session-Id", id)
		time.Sleep(time.Minute)
		if _, stored := store.sessions.Load(id); stored {
			t.Error("the store has a stream of the ended session")
		}
	})
}

// Events sent before a client has opened the standing stream are sent to the first client that
// does, even after a restart.
func TestUndeliveredEventsSurviveRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, path)
		defer store.Close()
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
		id := s.openSession(initialize)
		s.changeList()
		for range 2 {
			s.stop()
			s = serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}})
			defer s.stop()
		}
		standing := s.events("GET", "", "MCP-Session-Id", id)
		if got := standing.message(); got != listChanged {
			t.Errorf("the first connection receives %s", got)
		}
		standing.body.Close()
		s.stop()
		s = serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Streams: streamable.Streams{KeepAlive: -1}})
		defer s.stop()
		again := s.events("GET", "", "MCP-Session-Id", id)
		got := make(chan []string, 1)
		go func() { got <- again.messages() }() // ends with the handler
		s.changeList()
		synctest.Wait()
		s.handler.Close()
		if got := <-got; len(got) != 1 {
			t.Errorf("the next connection receives %q", got)
		}
	})
}

// The stored size of a session does not grow with the number of answered requests.
func TestAnsweredRequestsFreeStoreSpace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events.db")
	synctest.Test(t, func(t *testing.T) {
		store, err := boltstore.Open(path, boltstore.Options{MaxSessionBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		s := serve(t, streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Streams: streamable.Streams{After: -1}})
		defer s.stop()
		id := s.openSession(initialize)
		argument := strings.Repeat("x", 200<<10)
		for n := range 20 {
			body := strings.Replace(call(n, "log"), `"arguments":{`, `"arguments":{"long":"`+argument+`",`, 1)
			s.events("POST", body, "MCP-Session-Id", id).messages()
		}
		before := heap()
		_, streams, err := store.Load(t.Context(), id)
		if held := heap() - before; err != nil || held > 256<<10 {
			t.Errorf("a session with %d streams has %d bytes, %v", len(streams), held, err)
		}
		runtime.KeepAlive(streams)
		if err := store.Compact(); err != nil {
			t.Error(err)
		}
		if size := fileSize(t, path); size > 512<<10 {
			t.Errorf("the file has %d bytes", size)
		}
	})
}
