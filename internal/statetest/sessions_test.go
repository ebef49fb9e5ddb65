package statetest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

const news = "news://" + "%E2%80%A8&" // a resource

// sessionServer returns the handler of a server whose sessions are stored. subscribed returns the
// subscriptions that the server has begun.
func sessionServer(t *testing.T, store streamable.EventStore) (s *server.Server, h *streamable.Handler, subscribed func() string) {
	t.Helper()
	var mu sync.Mutex
	var list []string
	s = newServer(t, server.Options{Hooks: server.Hooks{Subscribe: func(_ context.Context, c *server.Call, uri string) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, c.Principal()+" "+uri)
		return nil
	}}})
	server.AddTemplate(s, "news://{+name}", "news", func(context.Context, *server.Call, server.Resource) (string, error) { return "", nil })
	server.AddTool(s, "log", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelError, odd, map[string]string{odd: odd})
		c.Log(ctx, mcp.LoggingLevelInfo, "", "below the level of the session")
		return odd, c.Log(ctx, mcp.LoggingLevelError, "", "second")
	})
	server.AddTool(s, "wait", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		c.Log(ctx, mcp.LoggingLevelError, "", odd)
		<-ctx.Done()
		return "", ctx.Err()
	})
	server.AddTool(s, "visit", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return "", c.RequireURL(ctx, "visit", "https://example.com/", odd)
	})
	return s, must(s.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: store}, Access: streamable.Access{Principal: principal}})), func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(list, ", ")
	}
}

// serveFor returns the response to a request whose client disconnects once nothing more happens.
func serveFor(t *testing.T, h http.Handler, r *http.Request, meanwhile func()) *httptest.ResponseRecorder {
	t.Helper()
	ctx, disconnect := context.WithCancel(t.Context())
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() { // ends with the request
		defer close(done)
		h.ServeHTTP(w, r.WithContext(ctx))
	}()
	synctest.Wait()
	meanwhile()
	synctest.Wait()
	disconnect()
	<-done
	return w
}

// sessionFacts is what the file sessions.db contains.
type sessionFacts struct {
	Now      time.Time
	Session  string
	Complete string   // id of the first event of a stream that has ended
	Missed   []string // its further messages
	Open     string   // id of the first event of a stream that was open
}

func writeSessions(t *testing.T, dir string) {
	file := t.TempDir() + "/sessions.db"
	store := must(boltstore.Open(file, boltstore.Options{}))
	s, h, _ := sessionServer(t, store)
	id := openSession(t, h)
	post := func(body string) *http.Request { return request(t, "POST", body, "MCP-Session-Id", id) }
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"` + news + `"}}`,
		`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"visit"}}`,
	} {
		if w := serve(h, post(body)); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	facts := sessionFacts{Session: id}
	for i, e := range messages(serve(h, post(`{"jsonrpc":"2.0","id":"<&>\u2028\ufffd\/","method":"tools/call","params":{"name":"log"}}`))) {
		if i == 0 {
			facts.Complete = e.id
		} else {
			facts.Missed = append(facts.Missed, e.text)
		}
	}
	open := serveFor(t, h, post(`{"jsonrpc":"2.0","id":"<&>\u2028\ufffd\\","method":"tools/call","params":{"name":"wait"}}`), func() {})
	facts.Open = messages(open)[0].id
	s.ResourceUpdated(news) // for the standing stream, which the client has not opened yet
	synctest.Wait()
	facts.Now = time.Now().UTC()
	noError(t, store.Close()) // as if the process had crashed
	s.Close()
	pack(t, file, dir)
	saveFacts(t, dir, "sessions.json", facts)
}

func readSessions(t *testing.T, dir string) {
	facts := loadFacts[sessionFacts](t, dir, "sessions.json")
	sleepUntil(facts.Now)
	store := must(boltstore.Open(unpack(t, dir, "sessions.db"), boltstore.Options{}))
	defer store.Close()
	s, h, subscribed := sessionServer(t, store)
	defer s.Close()
	resume := func(event string) (got []string) {
		w := serveFor(t, h, request(t, "GET", "", "MCP-Session-Id", facts.Session, "Last-Event-ID", event), func() {})
		for _, e := range messages(w) {
			got = append(got, e.text)
		}
		return got
	}
	equal(t, "messages of the stream that has ended", facts.Missed, resume(facts.Complete))
	if got := resume(facts.Open); len(got) != 1 || !strings.Contains(got[0], "\"id\":\"<&>\u2028\ufffd\\\\\",\"error\":") && !strings.Contains(got[0], `"id":"<&>\u2028\ufffd\\","error":`) {
		t.Errorf("messages of the stream that was open: %q, want an error for the request", got)
	}
	synctest.Wait()
	equal(t, "restored subscriptions", "ann "+news, subscribed())
	updates := serveFor(t, h, request(t, "GET", "", "MCP-Session-Id", facts.Session), func() { s.ResourceUpdated(news) })
	equal(t, "updates, one of them stored", 2, strings.Count(updates.Body.String(), `{"uri":"`+news+`"}`))
	logged := messages(serve(h, request(t, "POST", `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"log"}}`, "MCP-Session-Id", facts.Session)))
	equal(t, "messages of a tool at level error", 3, len(logged))
	owner, ok := s.ElicitationPrincipal(odd)
	if owner != "ann" || !ok {
		t.Errorf("principal of the elicitation: %q, %t", owner, ok)
	}
}
