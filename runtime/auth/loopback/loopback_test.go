package loopback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// begin begins an authorization that ends with the test.
func begin(t *testing.T, a oauth.UserAgent, known ...string) oauth.Redirect {
	t.Helper()
	r, err := a.Begin(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func right(state string) bool { return state == "right" }

const authorizationURL = "https://as.example/authorize?state=right"

// request sends a request as a browser does, and returns its status and the page.
func request(t *testing.T, method, address, host string) (status int, page string) {
	t.Helper()
	req, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	return resp.StatusCode, string(text)
}

func TestListenerAcceptsOnlyItsRedirect(t *testing.T) {
	var r oauth.Redirect
	a := New(&Options{Open: func(address string) error {
		if address != authorizationURL {
			t.Errorf("the browser opens %s", address)
		}
		uri, err := url.Parse(r.URI())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ method, uri, host string }{
			{http.MethodPost, r.URI() + "?state=right&code=a", ""},
			{http.MethodGet, r.URI() + "?state=wrong&code=a", ""},
			{http.MethodGet, r.URI() + "?code=a", ""},
			{http.MethodGet, r.URI() + "?state=right&code=a&code=b", ""},
			{http.MethodGet, r.URI() + "?state=right;code=a", ""},
			{http.MethodGet, "http://" + uri.Host + "/callback?state=right&code=a", ""},
			{http.MethodGet, r.URI() + "?state=right&code=a", "evil.example:" + uri.Port()},
			{http.MethodGet, r.URI() + "?state=right&code=a", "127.0.0.1:1"},
		} {
			if status, page := request(t, c.method, c.uri, c.host); status != http.StatusBadRequest || strings.Contains(page, "code") {
				t.Errorf("%s %s of %s: status %d, %s", c.method, c.uri, c.host, status, page)
			}
		}
		status, page := request(t, http.MethodGet, r.URI()+"?state=right&code=a%20b&iss=x", "localhost:"+uri.Port())
		if status != http.StatusOK || !strings.Contains(page, "You are logged in") {
			t.Errorf("the redirect: status %d, %s", status, page)
		}
		return nil
	}})
	r = begin(t, a)
	got, err := r.Wait(t.Context(), authorizationURL, right)
	if err != nil || got.Get("code") != "a b" || got.Get("iss") != "x" {
		t.Errorf("got %v, %v", got, err)
	}
	if second := begin(t, a); second.URI() == r.URI() {
		t.Errorf("two authorizations have the URI %s", r.URI())
	}
}

func TestWaitReturnsErrorRedirect(t *testing.T) {
	var r oauth.Redirect
	r = begin(t, New(&Options{Open: func(string) error {
		if status, page := request(t, http.MethodGet, r.URI()+"?state=right&error=access_denied", ""); status != http.StatusOK || !strings.Contains(page, "has failed") {
			t.Errorf("status %d, %s", status, page)
		}
		return nil
	}}))
	if got, err := r.Wait(t.Context(), authorizationURL, right); err != nil || got.Get("error") != "access_denied" {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestListenerLimitsRequests(t *testing.T) {
	h := &handler{path: "/callback", port: "80", accept: right, outcome: make(chan outcome, 1)}
	for range maxRequests + 1 {
		if len(h.outcome) != 0 {
			t.Fatal("the authorization ends too early")
		}
		h.ServeHTTP(discarded{}, &http.Request{Method: http.MethodGet, Host: "localhost", URL: &url.URL{Path: "/"}})
	}
	if got := <-h.outcome; !errors.Is(got.err, errTooManyRequests) {
		t.Errorf("got %v", got.err)
	}
}

// discarded is a ResponseWriter.
type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) Write(p []byte) (int, error) { return len(p), nil }
func (discarded) WriteHeader(int)             {}

func TestListenerPrefersKnownRedirectURIs(t *testing.T) {
	taken := errors.New("address already in use")
	for _, c := range []struct {
		known []string
		want  []string // addresses, in order
		uri   string   // a prefix
	}{
		{nil, []string{"127.0.0.1:0"}, "http://127.0.0.1:5000/callback/"},
		{[]string{"http://127.0.0.1:1234/a"}, []string{"127.0.0.1:1234"}, "http://127.0.0.1:1234/a"},
		{[]string{"http://localhost:1234/a"}, []string{"127.0.0.1:1234"}, "http://localhost:1234/a"},
		{[]string{"http://[::1]/a"}, []string{"[::1]:0"}, "http://[::1]:5000/a"},
		{[]string{"http://127.0.0.1:99/a", "http://127.0.0.1/a"}, []string{"127.0.0.1:99", "127.0.0.1:0"}, "http://127.0.0.1:5000/a"},
		{[]string{"https://host.example/a", "http://10.0.0.1/a", "app:/a", "http://127.0.0.1/a?b"}, []string{"127.0.0.1:0"}, "http://127.0.0.1:5000/callback/"},
	} {
		var got []string
		a := &agent{listen: func(_ context.Context, address string) (net.Listener, error) {
			got = append(got, address)
			host, port, err := net.SplitHostPort(address)
			switch {
			case err != nil:
				return nil, err
			case port == "99":
				return nil, taken
			case port == "0":
				address = net.JoinHostPort(host, "5000")
			}
			return listener(address), nil
		}}
		r := begin(t, a, c.known...)
		if !slices.Equal(got, c.want) || !strings.HasPrefix(r.URI(), c.uri) {
			t.Errorf("known %q: listens on %q as %s", c.known, got, r.URI())
		}
	}
}

// listener is a net.Listener with an address.
type listener string

func (l listener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (l listener) Close() error              { return nil }
func (l listener) Addr() net.Addr            { return l }
func (l listener) Network() string           { return "tcp" }
func (l listener) String() string            { return string(l) }

func TestBrowserFailsToOpen(t *testing.T) {
	broken := errors.New("no browser")
	r := begin(t, New(&Options{Open: func(string) error { return broken }}))
	if _, err := r.Wait(t.Context(), authorizationURL, right); !errors.Is(err, broken) {
		t.Errorf("without Print: %v", err)
	}
	var out strings.Builder
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	r = begin(t, New(&Options{Print: &out, Open: func(string) error { cancel(enough); return broken }}))
	if _, err := r.Wait(ctx, authorizationURL, right); !errors.Is(err, enough) || out.String() != "To log in, open "+authorizationURL+"\n" {
		t.Errorf("with Print: %v, %q", err, &out)
	}
}

func TestOpenRefusesOtherURLs(t *testing.T) {
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "-a", "", "https://ann:secret@as.example/", "http://ann:secret%2@as.example/"} {
		if err := Open(address); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
	for system, want := range map[string]string{
		"linux": "xdg-open URL", "freebsd": "xdg-open URL", "darwin": "open URL", "windows": "rundll32 url.dll,FileProtocolHandler URL",
	} {
		if got := strings.Join(opener(system, "URL"), " "); got != want {
			t.Errorf("%s: %s", system, got)
		}
	}
}

func TestBrowserHasItsOwnProcessGroup(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the opener is xdg-open on Linux")
	}
	dir := t.TempDir()
	// Only the leader of a process group has the id of the group.
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte("#!/bin/sh\nkill -0 -$$\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if err := Open("https://as.example/"); err != nil {
		t.Error(err)
	}
}

func TestCallback(t *testing.T) {
	for redirect, ok := range map[string]bool{
		"https://host.example/cb?state=right&code=a":  true,
		"https://host.example/cb?state=wrong&code=a":  false,
		"https://host.example/cb2?state=right&code=a": false,
		"https://evil.example/cb?state=right&code=a":  false,
		"%": false,
	} {
		a := Callback("https://host.example/cb", func(_ context.Context, address string) (string, error) {
			if address != authorizationURL {
				t.Errorf("f gets %s", address)
			}
			return redirect, nil
		})
		r := begin(t, a, "https://other.example/")
		got, err := r.Wait(t.Context(), authorizationURL, right)
		if r.URI() != "https://host.example/cb" || (err == nil) != ok || ok && got.Get("code") != "a" {
			t.Errorf("%s: %v, %v", redirect, got, err)
		}
	}
	failed := errors.New("page closed")
	r := begin(t, Callback("https://host.example/cb", func(context.Context, string) (string, error) { return "", failed }))
	if _, err := r.Wait(t.Context(), authorizationURL, right); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func TestPrintReadsTheRedirect(t *testing.T) {
	in := strings.NewReader("\nhttp://127.0.0.1/callback?state=wrong&code=a\n http://127.0.0.1/callback?state=right&code=b \r\n" +
		"http://localhost:8080/cb?state=right&code=c")
	var out strings.Builder
	a := Print(in, &out)
	for _, c := range []struct{ known, uri, code string }{
		{"https://host.example/cb", printedURI, "b"},
		{"http://localhost:8080/cb", "http://localhost:8080/cb", "c"},
	} {
		r := begin(t, a, c.known)
		got, err := r.Wait(t.Context(), authorizationURL, right)
		if err != nil || got.Get("code") != c.code || r.URI() != c.uri {
			t.Errorf("%s: %v, %v", r.URI(), got, err)
		}
	}
	if text := out.String(); !strings.HasPrefix(text, fmt.Sprintf("To log in, open %s\n", authorizationURL)) || strings.Count(text, "This is not the address") != 2 {
		t.Errorf("printed %q", text)
	}
	if _, err := begin(t, a).Wait(t.Context(), authorizationURL, right); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at the end of the input: %v", err)
	}
	if _, err := begin(t, Print(strings.NewReader(strings.Repeat("x\n", maxLines+1)), io.Discard)).Wait(t.Context(), authorizationURL, right); err == nil {
		t.Error("the number of lines is not limited")
	}
}

func TestPrintedAuthorizationIsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, typed := io.Pipe()
		a := Print(in, io.Discard)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		if _, err := begin(t, a).Wait(ctx, authorizationURL, right); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		go func() { fmt.Fprintf(typed, "%s?state=right&code=a\n", printedURI); typed.Close() }()
		if got, err := begin(t, a).Wait(t.Context(), authorizationURL, right); err != nil || got.Get("code") != "a" {
			t.Errorf("the next authorization: %v, %v", got, err)
		}
	})
}
