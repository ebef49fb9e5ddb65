package streamable_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// These tests use the HTTP client that a Client creates, over the loopback interface.

func TestClientWithDefaultHTTPClient(t *testing.T) {
	f := &fakeServer{t: t, begin: time.Now(), revision: "2025-11-25"}
	before := runtime.NumGoroutine()
	var paths, users []string
	mux := http.NewServeMux()
	mux.Handle("/mcp", f)
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		paths, users = append(paths, r.Method), append(users, user)
		w.Header().Set("Location", "/mcp")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/other-origin", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1)+"/mcp")
		w.WriteHeader(http.StatusPermanentRedirect)
	})
	server := httptest.NewServer(mux)
	connect := func(serverURL string) (*session.Session, error) {
		c, err := streamable.Dial(serverURL, streamable.ClientOptions{Options: httpclient.Options{Retries: httpclient.Retries{Delay: time.Millisecond}}})
		if err != nil {
			t.Fatal(err)
		}
		return session.Connect(t.Context(), c, &mcp.InitializeRequestParams{}, nil)
	}
	for _, serverURL := range []string{
		server.URL + "/mcp", server.URL + "/moved", strings.Replace(server.URL, "http://", "http://ann:secret@", 1) + "/moved",
	} {
		s, err := connect(serverURL)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Ping(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(users) == 0 || users[0] != "" || users[len(users)-1] != "ann" {
		t.Errorf("the users of %d redirected requests are %q", len(paths), users)
	}
	if _, err := connect(server.URL + "/other-origin"); !errors.Is(err, httpclient.ErrRedirect) {
		t.Errorf("a redirect to another origin: %v", err)
	}
	server.Close()
	_, err := connect(strings.Replace(server.URL, "http://", "http://ann:secret@", 1))
	if err == nil || strings.Contains(fmt.Sprint(err), "secret") {
		t.Errorf("a closed server: %v", err)
	}
	// The goroutines of connections end soon after those are closed.
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines are left of %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestClientBehindProxy(t *testing.T) {
	f := &fakeServer{t: t, begin: time.Now(), revision: "2025-11-25"}
	var hosts sync.Map
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts.Store(r.URL.Host, true)
		f.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxyURL)}
	defer transport.CloseIdleConnections()
	var o streamable.ClientOptions
	// The Timeout of the http.Client is ignored.
	o.HTTP = &http.Client{Transport: transport, Timeout: time.Nanosecond}
	c, err := streamable.Dial("http://server.example/mcp", o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Connect(t.Context(), c, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	hosts.Range(func(host, _ any) bool {
		if host != "server.example" {
			t.Errorf("the proxy received requests for host %v", host)
		}
		return true
	})
}
