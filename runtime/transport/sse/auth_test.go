package sse_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

const protectedURL = "https://mcp.example.com/sse"

// protected is a handler whose tokens are a subject, the minutes until it expires or "", and scopes,
// separated by slashes.
type protected struct {
	*sse.Handler
	conns chan transport.Conn
}

func newProtected(t *testing.T) *protected {
	start := time.Now()
	p, err := auth.NewProtector(auth.Options{
		Resource: protectedURL, Issuers: []string{"https://as.example.com"},
		Verifier: auth.VerifierFunc(func(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
			list := strings.Split(c.Token.Reveal(), "/")
			if len(list) < 2 {
				return nil, auth.ErrInvalidToken
			}
			i := &auth.Identity{Subject: list[0], Scopes: list[2:], Audience: []string{protectedURL}}
			if list[1] != "" {
				life, err := time.ParseDuration(list[1])
				if err != nil {
					return nil, err
				}
				i.Expiry = start.Add(life)
			}
			return i, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &protected{conns: make(chan transport.Conn, 10)}
	h.Handler = sse.NewHandler(func(_ *http.Request, c transport.Conn) { h.conns <- c }, sse.HandlerOptions{
		Auth: p, KeepAlive: 1000 * time.Hour,
		Access: sse.Access{RequiredScopes: func(_ context.Context, method string, _ []byte) []string {
			if method == "write" {
				return []string{"write"}
			}
			return nil
		}},
	})
	return h
}

func (h *protected) send(method, url, token, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Other", "kept")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// open opens a connection, and returns the URL to post to. The channel receives how long it was
// open.
func (h *protected) open(t *testing.T, token string) (url string, conn transport.Conn, ended <-chan time.Duration) {
	t.Helper()
	r := httptest.NewRequest("GET", protectedURL, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	end := make(chan time.Duration, 1)
	start := time.Now()
	go func() {
		h.ServeHTTP(w, r)
		end <- time.Since(start)
	}()
	synctest.Wait()
	_, data, ok := strings.Cut(w.Body.String(), "data: ")
	if !ok {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return strings.TrimSpace(data), <-h.conns, end
}

// Proves AUTH-20, AUTH-21, AUTH-22, AUTH-23.
func TestProtectedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newProtected(t)
		defer h.Close()
		for token, status := range map[string]int{"": 401, "bad": 401} {
			if w := h.send("GET", protectedURL, token, ""); w.Code != status || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("stream with token %q: status %d, %v", token, w.Code, w.Header())
			}
		}
		url, conn, _ := h.open(t, "ann/")
		read := `{"jsonrpc":"2.0","id":1,"method":"read"}`
		write := `{"jsonrpc":"2.0","id":1,"method":"write"}`
		for _, test := range []struct {
			token, body string
			status      int
		}{
			{"", read, 401},
			{"bad", read, 401},
			{"bob/", read, 404},
			{"ann/", write, 403},
			{"ann/", "[" + read + "," + write + "]", 403},
			{"ann/", read, 202},
			{"ann//write", write, 202},
		} {
			w := h.send("POST", url, test.token, test.body)
			if w.Code != test.status || (test.status == 403) != strings.Contains(w.Header().Get("WWW-Authenticate"), `scope="write"`) {
				t.Errorf("%+v: status %d, %v: %s", test, w.Code, w.Header(), w.Body)
			}
		}
		for _, want := range []string{read, write} {
			m, err := conn.Read()
			if err != nil || string(m.Text) != want {
				t.Fatalf("read %s, %v", m.Text, err)
			}
			i, ok := auth.FromContext(m.Context)
			principal, _ := transport.Principal(m.Context)
			header, _ := transport.HTTP(m.Context)
			if !ok || i.Subject != "ann" || principal != "https://as.example.com#ann" || header["Authorization"] != nil || !slices.Equal(header["X-Other"], []string{"kept"}) {
				t.Errorf("identity %+v, principal %q, header %v", i, principal, header)
			}
		}
	})
}

func TestConnectionEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newProtected(t)
		defer h.Close()
		_, conn, ended := h.open(t, "ann/10m")
		url, renewed, renewedEnded := h.open(t, "ann/10m")
		time.Sleep(5 * time.Minute)
		for _, token := range []string{"ann/30m", "ann/20m"} { // the second one changes nothing
			if w := h.send("POST", url, token, `{"jsonrpc":"2.0","method":"x"}`); w.Code != 202 {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
			if _, err := renewed.Read(); err != nil {
				t.Fatal(err)
			}
		}
		if after := <-ended; after != 11*time.Minute {
			t.Errorf("ended after %v", after)
		}
		if _, err := conn.Read(); err == nil {
			t.Error("the owner was not told")
		}
		if after := <-renewedEnded; after != 31*time.Minute {
			t.Errorf("the renewed connection ended after %v", after)
		}
	})
}
