package auth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/clientauth"
	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
	"github.com/mcpwire/mcpwire/runtime/transport/tap"
)

// visible collects everything that is logged, recorded, stored, or passed to applications.
type visible struct {
	mu   sync.Mutex
	text map[string]*bytes.Buffer // by where it was found
}

// writer returns a writer that collects the output of one place.
func (v *visible) writer(place string) io.Writer {
	return writerFunc(func(text []byte) (int, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.text[place] == nil {
			v.text[place] = new(bytes.Buffer)
		}
		return v.text[place].Write(text)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// error collects an error in the ways in which applications print it.
func (v *visible) error(err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(v.writer("errors"), "%v\n%+v\n", err, err)
	slog.New(slog.NewJSONHandler(v.writer("errors"), nil)).Error("failed", "error", err)
	for ; err != nil; err = errors.Unwrap(err) {
		fmt.Fprintf(v.writer("errors"), "%v\n", err)
	}
}

// secrets collects the secrets that are exchanged with an authorization server, by kind.
type secrets struct {
	mu   sync.Mutex
	list map[string][]string
}

func (s *secrets) add(kind, secret string) {
	if secret == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[kind] = append(s.list[kind], secret)
}

// watch returns a handler that collects the secrets in requests and responses of an authorization
// server.
func (s *secrets) watch(next http.Handler) http.Handler {
	kinds := []string{"code", "code_verifier", "refresh_token", "client_secret", "token", "access_token"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		_, password, _ := r.BasicAuth()
		s.add("client_secret", password)
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		var answer map[string]any
		json.Unmarshal(recorded.Body.Bytes(), &answer)
		for _, kind := range kinds {
			s.add(kind, form.Get(kind))
			if value, ok := answer[kind].(string); ok {
				s.add(kind, value)
			}
		}
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: plantedCookie})
		w.WriteHeader(recorded.Code)
		w.Write(recorded.Body.Bytes())
	})
}

// Secrets that the test plants.
const (
	plantedCookie = "planted-cookie"
	plantedToken  = "planted-token"
	plantedSecret = "planted-secret"
	plantedProxy  = "planted-proxy-authorization"
)

const redirectURI = "http://127.0.0.1:9/callback"

// secretWorld is a client with a tap and a recorder, a protected server with stores in files, a
// protected proxy with an upstream, and an authorization server.
type secretWorld struct {
	t        *testing.T
	seen     *visible
	secrets  *secrets
	log      *slog.Logger
	recorder *tap.Recorder
	trial    *trial.Server
	a        *oauth.Authorizer

	issuer, server, front string // URLs
}

// listen starts a server and returns its base URL. The handler is created when the URL is known.
func (w *secretWorld) listen(make func(base string) http.Handler) (base string) {
	web := httptest.NewUnstartedServer(nil)
	base = "http://" + web.Listener.Addr().String()
	web.Config.Handler = make(base)
	web.Start()
	w.t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return base
}

// protector returns the Protector of a server.
func (w *secretWorld) protector(resource string) *auth.Protector {
	p, err := auth.NewProtector(auth.Options{
		Resource: resource, Issuers: []string{w.issuer}, Verifier: w.trial, Scopes: []string{"mcp"}, Logger: w.log, CacheTTL: -1,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// show makes the arguments of a handler visible.
func (w *secretWorld) show(c *server.Call) {
	i, _ := c.Identity()
	fmt.Fprintf(w.seen.writer("handlers"), "%v %+v %#v %v\n", c.Header(), i, i, c.Principal())
	text, err := json.Marshal(i)
	w.seen.error(err)
	w.seen.writer("handlers").Write(text)
}

// options returns options of a client.
func (w *secretWorld) options() (o streamable.ClientOptions) {
	o.Logger = w.log
	return o
}

// dial connects a client through a tap and a recorder.
func (w *secretWorld) dial(at string, revisions []mcp.Revision) (*client.Client, error) {
	o := w.options()
	o.Auth, o.Header = w.a, http.Header{"Proxy-Authorization": {"Basic " + plantedProxy}}
	conn, err := streamable.Dial(at, o)
	if err != nil {
		return nil, err
	}
	return client.Connect(w.t.Context(), w.recorder.Wrap(tap.Log(conn, w.log), "client", mcp.FromClient), &client.Options{
		Session: session.Options{Revisions: revisions, Logger: w.log},
		Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Accept(map[string]any{"name": "marker-answer"})
		}},
	})
}

// login sends a user to the authorization server, which approves without a page.
func (w *secretWorld) login(ctx context.Context, at string) (string, error) {
	fmt.Fprintln(w.seen.writer("browser"), at)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	return resp.Header.Get("Location"), nil
}

// Only the two sides that exchange a secret see it. The test logs in, steps up, refreshes and
// fails, and searches everything that applications and operators see for the secrets.
//
// Proves AUTH-22, AUTH-30, M-AUTH-03.
func TestSecretsDoNotLeak(t *testing.T) {
	seen := &visible{text: map[string]*bytes.Buffer{}}
	w := &secretWorld{t: t, seen: seen, secrets: &secrets{list: map[string][]string{}}, recorder: tap.NewRecorder(seen.writer("recording"))}
	w.log = slog.New(slog.NewTextHandler(seen.writer("logs"), &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.secrets.add("planted", plantedCookie)
	w.secrets.add("planted", plantedToken)
	w.secrets.add("planted", plantedProxy)

	w.issuer = w.listen(func(base string) http.Handler {
		var err error
		w.trial, err = trial.New(trial.Options{
			Issuer: base, Scopes: []string{"mcp", "write"}, Approve: true,
			Clients: []trial.Client{{ID: "client", Secret: auth.NewSecret(plantedSecret), RedirectURIs: []string{redirectURI}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return w.secrets.watch(w.trial.Handler(nil))
	})
	files := t.TempDir()
	taskFile, sessionFile := filepath.Join(files, "tasks.db"), filepath.Join(files, "sessions.db")
	closeServer := w.startServer(taskFile, sessionFile)
	w.startProxy()
	config := oauth.Options{
		User:    loopback.Callback(redirectURI, w.login),
		Clients: []oauth.Client{{Issuer: w.issuer, ID: "client", Secret: auth.NewSecret(plantedSecret)}},
		Logger:  w.log,
	}
	var err error
	if w.a, err = oauth.New(config); err != nil {
		t.Fatal(err)
	}

	for _, revisions := range [][]mcp.Revision{session.Revisions(), session.ModernRevisions()} {
		w.use(revisions)
	}
	w.fail()
	w.print(&config)
	if err := w.a.Logout(t.Context(), w.server); err != nil {
		t.Error(err)
	}
	closeServer()
	for place, file := range map[string]string{"task store": taskFile, "session store": sessionFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		seen.writer(place).Write(text)
	}

	for _, kind := range []string{"access_token", "refresh_token", "code", "code_verifier", "client_secret", "planted"} {
		if len(w.secrets.list[kind]) == 0 {
			t.Errorf("the test has no secret of the kind %s", kind)
		}
	}
	// These texts must be found: they show that the search works.
	for place, marker := range map[string]string{
		"logs": "credentials rejected", "recording": "marker-text", "handlers": "mcp", "browser": "code_challenge", "errors": "401",
		"upstream": "marker-text", "task store": "marker-text", "session store": "#user", "values": "[secret]",
	} {
		if text := seen.text[place]; text == nil || !strings.Contains(text.String(), marker) {
			t.Errorf("%s do not contain %q", place, marker)
		}
	}
	for place, text := range seen.text {
		for kind, list := range w.secrets.list {
			for _, secret := range list {
				if i := bytes.Index(text.Bytes(), []byte(secret)); i >= 0 {
					t.Errorf("%s contain a secret of the kind %s: %.300q", place, kind, text.Bytes()[max(0, i-200):])
					break
				}
			}
		}
	}
}

// startServer starts the protected server. The returned function ends it and closes its stores.
func (w *secretWorld) startServer(taskFile, sessionFile string) (closeAll func()) {
	t := w.t
	tasks, err := bolt.Open(taskFile)
	if err != nil {
		t.Fatal(err)
	}
	sessions, err := boltstore.Open(sessionFile, boltstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New("server", "1", &server.Options{Tasks: task.Options{Store: tasks}, Logger: w.log, Session: session.Options{Logger: w.log}})
	type in struct{ Text string }
	show := func(_ context.Context, c *server.Call, in in) (string, error) {
		w.show(c)
		return in.Text, c.Progress(1, 2, in.Text)
	}
	server.AddTool(s, "read", "", show)
	server.AddTool(s, "write", "", show, server.RequireScopes("write"))
	server.AddTool(s, "work", "", show, server.Tasks(receiver.Support{After: -1}))
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, _ in) (string, error) {
		var form struct {
			Name string `json:"name"`
		}
		_, err := server.Elicit(ctx, c, "Who are you?", &form)
		w.show(c)
		return form.Name, err
	})
	var handler *streamable.Handler
	base := w.listen(func(base string) http.Handler {
		p := w.protector(base + "/mcp")
		handler = must.Get(s.Handler(&streamable.HandlerOptions{Auth: p, Sessions: streamable.Sessions{Store: sessions}, Logger: w.log}))
		protected := p.Handler(handler)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			http.SetCookie(rw, &http.Cookie{Name: "session", Value: plantedCookie})
			protected.ServeHTTP(rw, r)
		})
	})
	w.server = base + "/mcp"
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, err := range []error{s.Shutdown(ctx), handler.Close(), tasks.Close(), sessions.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// startProxy starts a protected proxy with an unprotected upstream.
func (w *secretWorld) startProxy() {
	s := server.New("upstream", "1", &server.Options{Logger: w.log})
	server.AddTool(s, "read", "", func(_ context.Context, c *server.Call, in struct{ Text string }) (string, error) {
		return in.Text, nil
	})
	handler := must.Get(s.Handler(&streamable.HandlerOptions{Logger: w.log}))
	w.t.Cleanup(func() { handler.Close() })
	upstream := w.listen(func(string) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			text, err := httputil.DumpRequest(r, true)
			w.seen.error(err)
			w.seen.writer("upstream").Write(text)
			handler.ServeHTTP(rw, r)
		})
	})
	base := w.listen(func(base string) http.Handler {
		p, err := proxy.New("proxy", "1", &proxy.Options{
			Upstreams: []proxy.Upstream{proxy.Dial("upstream", upstream, w.options())}, Server: server.Options{Logger: w.log},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		protector := w.protector(base + "/mcp")
		front := must.Get(p.Handler(&streamable.HandlerOptions{Auth: protector, Logger: w.log}))
		w.t.Cleanup(func() {
			front.Close()
			p.Shutdown(context.Background())
		})
		return protector.Handler(front)
	})
	w.front = base + "/mcp"
}

// use logs in, calls tools, and continues after all tokens were revoked.
func (w *secretWorld) use(revisions []mcp.Revision) {
	t := w.t
	c, err := w.dial(w.server, revisions)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := func(c *client.Client, tool, want string) {
		t.Helper()
		result, err := c.CallTool(t.Context(), tool, map[string]string{"Text": "marker-text"})
		w.seen.error(err)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
		} else if got := result.Content[0].(*mcp.TextContent).Text; got != want {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
	for _, tool := range []string{"read", "write", "work"} {
		call(c, tool, "marker-text")
	}
	call(c, "ask", "marker-answer")
	handle, err := c.StartTool(t.Context(), "work", map[string]string{"Text": "marker-text"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := handle.Result(t.Context()); err != nil {
		t.Error(err)
	}
	w.trial.Revoke("user")
	call(c, "read", "marker-text")
	front, err := w.dial(w.front, revisions)
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	call(front, "upstream_read", "marker-text")
}

// fail sends requests that are rejected.
func (w *secretWorld) fail() {
	t := w.t
	_, err := client.Dial(t.Context(), w.server, &client.Options{
		Auth: client.Token(auth.NewSecret(plantedToken)), HTTP: w.options(), Session: session.Options{Logger: w.log},
	})
	if err == nil {
		t.Error("a wrong token is accepted")
	}
	w.seen.error(err)
	wrong, err := oauth.New(oauth.Options{
		User:    loopback.Callback(redirectURI, w.login),
		Clients: []oauth.Client{{Issuer: w.issuer, ID: "client", Secret: auth.NewSecret(plantedToken)}}, Logger: w.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err = wrong.Login(t.Context(), w.server); err == nil {
		t.Error("a wrong client secret is accepted")
	}
	w.seen.error(err)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.URL.RawQuery = "access_token=" + plantedToken },
		func(r *http.Request) { r.Header.Set("Authorization", "Basic "+plantedToken) },
		func(r *http.Request) {
			r.Header["Authorization"] = []string{"Bearer " + plantedToken, "Bearer " + plantedToken}
		},
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+plantedToken+" "+plantedToken) },
		func(r *http.Request) {
			r.Header.Set("Authorization", "DPoP "+plantedToken)
			r.Header.Set("DPoP", plantedToken)
		},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Header.Del("Set-Cookie")
		text, err := httputil.DumpResponse(resp, true)
		resp.Body.Close()
		if err != nil || resp.StatusCode/100 != 4 {
			t.Errorf("status %d, %v", resp.StatusCode, err)
		}
		w.seen.writer("responses").Write(text)
	}
}

// print formats the values of applications that contain secrets.
func (w *secretWorld) print(config *oauth.Options) {
	t := w.t
	token, err := w.a.Token(t.Context(), w.server)
	if err != nil {
		t.Fatal(err)
	}
	key, err := machine.DPoP(nil).NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(key.Reveal(), "\n") {
		if line != "" && !strings.HasPrefix(line, "-----") {
			w.secrets.add("key", line)
		}
	}
	signer, err := machine.ParseKey([]byte(key.Reveal()), "", "")
	if err != nil {
		t.Fatal(err)
	}
	out := w.seen.writer("values")
	for _, value := range []any{
		token, *token, &oauth.Token{Key: key}, config.Clients, config, config.Clients[0].Secret,
		oauth.TokenRequest{Rejected: token.Access}, auth.Credentials{Token: token.Access},
		clientauth.New(clientauth.Basic, config.Clients[0].Secret),
		signer, machine.PrivateKeyJWT(signer), client.Token(token.Access), w.a, w.trial, errors.New(token.Access.String()),
	} {
		fmt.Fprintf(out, "%v\n%+v\n%#v\n", value, value, value)
		slog.New(slog.NewTextHandler(out, nil)).Info("value", "value", value)
		slog.New(slog.NewJSONHandler(out, nil)).Info("value", "value", value)
		if text, err := json.Marshal(value); err == nil {
			out.Write(text)
		}
	}
}
