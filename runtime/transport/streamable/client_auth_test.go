package streamable_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// gate is an Authorizer, and a Transport in front of a server that demands its newest token.
type gate struct {
	http.RoundTripper
	err error // of Challenged

	mu       sync.Mutex
	demanded string
	token    string   // of the Authorizer
	log      []string // the requests with their tokens
}

func (g *gate) Authorize(req *http.Request, _ httpclient.Operation) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	return nil
}

func (g *gate) Challenged(_ context.Context, _ *http.Response, op httpclient.Operation) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = g.demanded
	return op.Attempt == 0, g.err
}

func (g *gate) RoundTrip(req *http.Request) (*http.Response, error) {
	_, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	g.mu.Lock()
	g.log = append(g.log, strings.TrimSpace(req.Method+" "+token+" "+req.URL.RawQuery))
	open := token == g.demanded
	g.mu.Unlock()
	if open {
		return g.RoundTripper.RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// demand makes the server demand another token.
func (g *gate) demand(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.demanded = token
}

func (g *gate) takeLog() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	log := g.log
	g.log = nil
	return log
}

// Proves AUTH-18.
func TestClientAuthorizesEveryRequestOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.other = func(w http.ResponseWriter, r *http.Request, _ jsonrpc.Message) bool {
			if r.Method != http.MethodGet {
				return false
			}
			stream(w)
			<-r.Context().Done()
			return true
		}
		g := &gate{RoundTripper: f.client.Transport, demanded: "first"}
		o := f.options()
		o.HTTP, o.Auth = &http.Client{Transport: g}, g
		c := f.dial(o)
		s, err := session.Connect(t.Context(), c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := g.takeLog(), []string{"POST", "POST first", "POST first", "GET first"}; !slices.Equal(got, want) {
			t.Errorf("the handshake is %q, want %q", got, want)
		}
		g.demand("second")
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if got, want := g.takeLog(), []string{"POST first", "POST second", "DELETE second"}; !slices.Equal(got, want) {
			t.Errorf("then %q, want %q", got, want)
		}
	})
}

func TestUnauthorizedRequestWasNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		g := &gate{RoundTripper: f.client.Transport}
		o := f.options()
		o.HTTP, o.Auth = &http.Client{Transport: g}, g
		s := f.connect(o, nil)
		g.demand("another")
		g.err = errors.New("no login")
		_, err := s.Call(t.Context(), "tools/list", nil)
		lost, ok := errors.AsType[*transport.DeliveryError](err)
		status, rejected := errors.AsType[*httpclient.StatusError](err)
		if !ok || lost.Taken || !errors.Is(err, g.err) || !rejected || status.Code != http.StatusUnauthorized {
			t.Errorf("got %v", err)
		}
		g.demand(g.token)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("the session has ended: %v", err)
		}
	})
}

// operations is an Authorizer that obtains no token.
type operations chan httpclient.Operation

func (operations) Authorize(*http.Request, httpclient.Operation) error { return nil }

func (o operations) Challenged(_ context.Context, _ *http.Response, op httpclient.Operation) (bool, error) {
	select {
	case o <- op:
	default:
	}
	return false, errors.New("denied")
}

func TestRepeatedConfirmationAsksNoUserToLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServer(t)
		f.other = func(w http.ResponseWriter, _ *http.Request, m jsonrpc.Message) bool {
			if m.Method == mcp.MethodNotificationsInitialized {
				w.WriteHeader(http.StatusUnauthorized)
			}
			return m.Method == mcp.MethodNotificationsInitialized
		}
		o, asked := f.options(), make(operations, 10)
		o.Auth, o.Retries.Max = asked, -1
		s, err := session.Connect(t.Context(), f.dial(o), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if op := <-asked; op.Method != mcp.MethodNotificationsInitialized {
			t.Errorf("first operation %+v", op)
		}
		if op := <-asked; op.Method != "" {
			t.Errorf("the Authorizer may ask the user for %s in the background", op.Method)
		}
	})
}
