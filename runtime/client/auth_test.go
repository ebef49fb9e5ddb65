package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// login is an Authorizer whose users need some time to log in.
type login struct {
	takes time.Duration
	err   error // instead of a token

	mu    sync.Mutex
	token string
	ops   []httpclient.Operation // of the challenges
}

func (l *login) Authorize(req *http.Request, _ httpclient.Operation) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != "" {
		req.Header.Set("Authorization", "Bearer "+l.token)
	}
	return nil
}

func (l *login) Challenged(ctx context.Context, _ *http.Response, op httpclient.Operation) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	l.token = "token"
	return l.err == nil, l.err
}

// demand makes a server demand the token of login.
func demand(f *fake) {
	f.reject = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
		if r.Header.Get("Authorization") == "Bearer token" {
			return false
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// The limit of server/discover is five seconds, and that of a request one minute.
func TestTimeoutsDoNotRunDuringLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		f.answer = func(*http.Request, jsonrpc.Message) (string, *jsonrpc.Error) {
			return `{"resultType":"complete","content":[]}`, nil
		}
		l := &login{takes: 4 * time.Minute}
		c := f.dial(client.Options{Auth: l})
		if n := f.requests(mcp.MethodInitialize); n != 0 {
			t.Errorf("initialize was sent %d times", n)
		}
		l.mu.Lock()
		l.token = "revoked"
		l.mu.Unlock()
		if _, err := c.CallTool(t.Context(), "add", map[string]any{}); err != nil {
			t.Fatal(err)
		}
		var methods []string
		for _, op := range l.ops {
			methods = append(methods, op.Method+" "+op.Name)
			if op.Server.String() != "http://server/mcp" || op.Attempt != 0 {
				t.Errorf("challenge of %s, attempt %d", op.Server, op.Attempt)
			}
		}
		if want := []string{"server/discover ", "tools/call add"}; !slices.Equal(methods, want) {
			t.Errorf("challenges of %q, want %q", methods, want)
		}
	})
}

func TestTimeoutRunsBeforeAndAfterLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		f.answer = func(r *http.Request, _ jsonrpc.Message) (string, *jsonrpc.Error) {
			<-r.Context().Done()
			return `{}`, nil
		}
		l := &login{takes: 4 * time.Minute}
		c := f.dial(client.Options{Auth: l})
		l.mu.Lock()
		l.token = "revoked"
		l.mu.Unlock()
		start := time.Now()
		_, err := c.CallTool(t.Context(), "add", map[string]any{})
		if took := time.Since(start); !errors.Is(err, session.ErrTimeout) || took < 5*time.Minute || took > 5*time.Minute+time.Second {
			t.Errorf("the call ends with %v after %v, want ErrTimeout after 5m", err, took)
		}
	})
}

func TestContextEndsCallDuringLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		o := client.Options{Auth: &login{takes: time.Hour}}
		o.HTTP.HTTP = f.client
		start := time.Now()
		_, err := client.Dial(ctx, "http://server/mcp", &o)
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("Dial ends with %v after %v", err, took)
		}
	})
}

func TestDialReturnsErrorOfAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		denied := errors.New("denied")
		o := client.Options{Auth: &login{err: denied}}
		o.HTTP.HTTP = f.client
		_, err := client.Dial(t.Context(), "http://server/mcp", &o)
		status, ok := errors.AsType[*httpclient.StatusError](err)
		if !errors.Is(err, denied) || !ok || status.Code != http.StatusUnauthorized {
			t.Errorf("got %v", err)
		}
		if n := f.requests(mcp.MethodInitialize); n != 0 {
			t.Errorf("initialize was sent %d times", n)
		}
	})
}

// Proves AUTH-18, M-AUTH-07.
func TestTokenIsSentWithEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		f.answer = func(r *http.Request, _ jsonrpc.Message) (string, *jsonrpc.Error) {
			if r.URL.RawQuery != "" {
				t.Errorf("query %q", r.URL.RawQuery)
			}
			return `{"resultType":"complete","content":[]}`, nil
		}
		c := f.dial(client.Options{Auth: client.Token(auth.NewSecret("token"))})
		for range 2 {
			if _, err := c.CallTool(t.Context(), "add", map[string]any{}); err != nil {
				t.Error(err)
			}
		}
		o := client.Options{Auth: client.Token(auth.NewSecret("other"))}
		o.HTTP.HTTP = f.client
		_, err := client.Dial(t.Context(), "http://server/mcp", &o)
		if status, ok := errors.AsType[*httpclient.StatusError](err); !ok || status.Code != http.StatusUnauthorized || strings.Contains(err.Error(), "other") {
			t.Errorf("with another token: %v", err)
		}
		o.Auth = client.Token(auth.NewSecret("token").For("http://elsewhere/mcp"))
		if _, err := client.Dial(t.Context(), "http://server/mcp", &o); !errors.Is(err, auth.ErrRecipient) {
			t.Errorf("with the token of another server: %v", err)
		}
	})
}

// Proves AUTH-02.
func TestCommandIsNotAuthorized(t *testing.T) {
	var unusable *login // its methods panic
	pid(t, command(t, "own", client.Options{Auth: unusable}))
}

func TestKeepAliveDoesNotAskUserToLogIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		demand(f)
		l := &login{}
		f.dial(client.Options{Auth: l, Session: session.Options{Timeouts: session.Timeouts{KeepAlive: time.Minute}}})
		l.mu.Lock()
		l.token, l.ops, l.err = "revoked", nil, errors.New("denied")
		l.mu.Unlock()
		time.Sleep(5*time.Minute + time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.ops) == 0 {
			t.Error("no ping")
		}
		for _, op := range l.ops {
			if op.Method != "" {
				t.Errorf("the Authorizer may ask the user for %s", op.Method)
			}
		}
	})
}
