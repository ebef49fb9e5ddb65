package httpcore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// authorizer implements Authorizer with functions.
type authorizer struct {
	authorize  func(req *http.Request, op httpclient.Operation) error
	challenged func(ctx context.Context, resp *http.Response, op httpclient.Operation) (bool, error)
}

func (a *authorizer) Authorize(req *http.Request, op httpclient.Operation) error {
	if a.authorize == nil {
		return nil
	}
	return a.authorize(req, op)
}

func (a *authorizer) Challenged(ctx context.Context, resp *http.Response, op httpclient.Operation) (bool, error) {
	return a.challenged(ctx, resp, op)
}

// tripper is a RoundTripper that answers requests without a server.
type tripper func(req *http.Request) *http.Response

func (f tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := f(req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp.Request = req
	resp.Body = cmp.Or[io.ReadCloser](resp.Body, http.NoBody)
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	return resp, nil
}

var endpointURL = &url.URL{Scheme: "https", Host: "server", Path: "/mcp"}

// newAuthorized returns an End with an Authorizer.
func newAuthorized(t *testing.T, a *authorizer, trip tripper) *End {
	t.Helper()
	server := *endpointURL
	server.User, server.RawQuery = url.UserPassword("ann", "secret"), "key=secret"
	e, err := New(&server, httpclient.Options{Auth: a, HTTP: &http.Client{Transport: trip}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(nil) })
	return e
}

const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}`

func post() Request {
	return Request{Method: http.MethodPost, URL: endpointURL, Header: http.Header{"Content-Type": {JSON}}, Text: []byte(call)}
}

// watchedBody records that it was closed.
type watchedBody struct {
	io.Reader
	closed *atomic.Bool
}

func (b watchedBody) Close() error { b.closed.Store(true); return nil }

func TestChallengedRequestIsSentAgain(t *testing.T) {
	var closed atomic.Bool
	var token string
	a := &authorizer{
		authorize: func(req *http.Request, op httpclient.Operation) error {
			if op.Server.String() != "https://server/mcp" || op.Method != "tools/call" || op.Name != "add" {
				t.Errorf("operation %+v on %s", op, op.Server)
			}
			req.Header.Set("Authorization", fmt.Sprint(token, op.Attempt))
			return nil
		},
		challenged: func(_ context.Context, resp *http.Response, op httpclient.Operation) (bool, error) {
			text, _ := io.ReadAll(resp.Body)
			if !closed.Load() || string(text) != "who are you?" || resp.StatusCode != http.StatusUnauthorized || op.Attempt != 0 {
				t.Errorf("challenge with status %d, %q, attempt %d, closed: %v", resp.StatusCode, text, op.Attempt, closed.Load())
			}
			token = "token"
			return true, nil
		},
	}
	e := newAuthorized(t, a, func(req *http.Request) *http.Response {
		text, _ := io.ReadAll(req.Body)
		if string(text) != call || req.Header.Get("Content-Type") != JSON {
			t.Errorf("the server gets %q with %v", text, req.Header)
		}
		if req.Header.Get("Authorization") == "token1" {
			return &http.Response{StatusCode: http.StatusOK}
		}
		return &http.Response{StatusCode: http.StatusUnauthorized, Body: watchedBody{strings.NewReader("who are you?"), &closed}}
	})
	r := post()
	resp, err := e.Do(t.Context(), r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("got %v, %v", resp, err)
	}
	if len(r.Header) != 1 {
		t.Errorf("the header of the caller has become %v", r.Header)
	}
}

func TestRequestIsSentFourTimesAtMost(t *testing.T) {
	sent, challenges := 0, 0
	a := &authorizer{challenged: func(context.Context, *http.Response, httpclient.Operation) (bool, error) {
		challenges++
		return true, nil
	}}
	e := newAuthorized(t, a, func(*http.Request) *http.Response { sent++; return &http.Response{StatusCode: http.StatusForbidden} })
	resp, err := e.Do(t.Context(), post())
	if err != nil || resp.StatusCode != http.StatusForbidden || sent != maxSends || challenges != maxSends-1 {
		t.Errorf("%d requests, %d challenges: %v, %v", sent, challenges, resp, err)
	}
}

func TestUnauthorizedRequestFails(t *testing.T) {
	refused := errors.New("no login")
	for _, c := range []struct {
		name         string
		authorize    error
		err          error
		sent         int
		status, text string
	}{
		{"Authorize fails", refused, nil, 0, "", "POST https://server/mcp: authorize: no login"},
		{"Challenged fails", nil, refused, 1, "why", "POST https://server/mcp: status 401 Unauthorized: no login"},
		{"Challenged returns false", nil, nil, 1, "why", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := 0
			a := &authorizer{
				authorize:  func(*http.Request, httpclient.Operation) error { return c.authorize },
				challenged: func(context.Context, *http.Response, httpclient.Operation) (bool, error) { return false, c.err },
			}
			e := newAuthorized(t, a, func(*http.Request) *http.Response {
				sent++
				return &http.Response{StatusCode: http.StatusUnauthorized, Body: io.NopCloser(strings.NewReader("why"))}
			})
			resp, err := e.Do(t.Context(), post())
			if sent != c.sent || NotSent(err) != (sent == 0) {
				t.Errorf("sent %d times: %v", sent, err)
			}
			if c.text != "" && (err == nil || err.Error() != c.text || !errors.Is(err, refused)) {
				t.Errorf("got %v", err)
			}
			status, _ := errors.AsType[*httpclient.StatusError](err)
			if resp != nil {
				status, _ = Status(resp)
			}
			if c.status == "" && status != nil || c.status != "" && (status == nil || status.Body != c.status || status.Code != http.StatusUnauthorized) {
				t.Errorf("got %v", status)
			}
		})
	}
}

func TestOperationOfMessages(t *testing.T) {
	for text, want := range map[string]string{
		call: "tools/call add",
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`: "resources/read a:b",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}`:        "tools/call ",
		`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a"}}`:     "tasks/get ",
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:                    "notifications/initialized ",
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                      " ",
		``:                                                                          " ",
	} {
		if method, name := operation([]byte(text)); method+" "+name != want {
			t.Errorf("%s: %q %q", text, method, name)
		}
	}
}

// Proves AUTH-19.
func TestRedirectToAnotherOriginHasNoCredentials(t *testing.T) {
	for _, target := range []string{"https://server:8443/mcp", "http://server/mcp", "https://sub.server/mcp", "https://server/other"} {
		t.Run(target, func(t *testing.T) {
			a := &authorizer{authorize: func(req *http.Request, _ httpclient.Operation) error {
				req.Header.Set("Authorization", "DPoP token")
				req.Header.Set("DPoP", "proof")
				return nil
			}}
			var got http.Header
			trip := tripper(func(req *http.Request) *http.Response {
				if req.URL.String() != target {
					return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {target}}}
				}
				got = req.Header
				return &http.Response{StatusCode: http.StatusOK}
			})
			follow := func(*http.Request, []*http.Request) error { return nil }
			own := http.Header{"x-api-key": {"hunter2"}}
			e, err := New(endpointURL, httpclient.Options{Auth: a, Header: own, HTTP: &http.Client{Transport: trip, CheckRedirect: follow}})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close(nil)
			same := strings.HasPrefix(target, "https://server/")
			check := func(name string) {
				t.Helper()
				for _, field := range []string{"Authorization", "DPoP", "X-Api-Key", "Mcp-Session-Id"} {
					if (got.Get(field) != "") != same {
						t.Errorf("%s: %s is %q", name, field, got.Get(field))
					}
				}
				if got.Get("Content-Type") != JSON {
					t.Errorf("%s: the server gets %v", name, got)
				}
			}
			r := post()
			r.Header.Set("Mcp-Session-Id", "hunter2")
			if _, err := e.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			check("redirect")
			// As after a redirect of the stream of a session.
			if r.URL, err = url.Parse(target); err != nil {
				t.Fatal(err)
			}
			if !same {
				r.Header.Del("Mcp-Session-Id")
			}
			if _, err := e.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			check("request")
		})
	}
}

func TestAuthExcludesAuthorizationHeader(t *testing.T) {
	_, err := New(endpointURL, httpclient.Options{Auth: &authorizer{}, Header: http.Header{"authorization": {"Bearer x"}}})
	if err == nil || strings.Contains(err.Error(), "Bearer") {
		t.Errorf("got %v", err)
	}
}

func TestStallTimeoutDoesNotRunDuringChallenge(t *testing.T) {
	for name, do := range map[string]func(e *End, ctx context.Context, r Request) (*http.Response, error){
		"DoWithTimeout": (*End).DoWithTimeout,
		"WithStallTimeout": func(e *End, ctx context.Context, r Request) (*http.Response, error) {
			ctx, cancel := e.WithStallTimeout(ctx)
			defer cancel()
			return e.Do(ctx, r)
		},
	} {
		for _, silent := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, silent afterwards: %v", name, silent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					again := false
					a := &authorizer{challenged: func(context.Context, *http.Response, httpclient.Operation) (bool, error) {
						time.Sleep(time.Hour)
						again = true
						return true, nil
					}}
					e := newAuthorized(t, a, func(req *http.Request) *http.Response {
						switch {
						case !again:
							return &http.Response{StatusCode: http.StatusUnauthorized}
						case silent:
							<-req.Context().Done()
						}
						return &http.Response{StatusCode: http.StatusOK}
					})
					start := time.Now()
					resp, err := do(e, t.Context(), post())
					took := time.Since(start)
					switch {
					case silent && (!errors.Is(err, transport.ErrStalled) || took != time.Hour+transport.DefaultStallTimeout):
						t.Errorf("ended after %v with %v", took, err)
					case !silent && (err != nil || took != time.Hour):
						t.Errorf("ended after %v with %v", took, err)
					}
					if resp != nil {
						resp.Body.Close()
					}
				})
			})
		}
	}
}
