package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// ownSettings gives the test its own configuration directory, and an environment without
// credentials. It returns the path of the file with logins.
func ownSettings(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"XDG_CONFIG_HOME", "HOME", "AppData"} {
		t.Setenv(name, dir)
	}
	t.Setenv(tokenEnv, "")
	t.Setenv(tokenForEnv, "")
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(config, "mcpwire", "credentials.json")
}

// login runs a command, opens each address that it prints, and pastes the address to which the
// browser is redirected.
func login(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log strings.Builder
	in, typed := io.Pipe()
	errs, printed := io.Pipe()
	done := make(chan struct{})
	go func() { // ends with the command
		defer close(done)
		browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for lines := bufio.NewScanner(errs); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			address, ok := strings.CutPrefix(lines.Text(), "To log in, open ")
			if !ok {
				continue
			}
			resp, err := browser.Get(address)
			if err != nil {
				t.Error(err)
				continue
			}
			resp.Body.Close()
			go fmt.Fprintln(typed, resp.Header.Get("Location")) // ends when the command reads it
		}
	}()
	code = run(t.Context(), streams{in, &out, printed}, args)
	printed.Close()
	in.Close()
	<-done
	return code, out.String(), log.String()
}

func TestLoginIsStored(t *testing.T) {
	file := ownSettings(t)
	url := serveOverHTTP(t, "serve", "-http", "localhost:0", "-auth", "trial", "-auth-approve")
	if !strings.HasPrefix(url, "http://localhost:") {
		t.Errorf("the server at localhost is known as %s", url)
	}
	call := []string{"call", url, "add", "a=1", "b=2"}
	change := []string{"call", url, "test_trigger_tool_change"}
	// denied runs a command that fails without a login.
	denied := func(want string, args ...string) {
		t.Helper()
		if code, out, errs := mcpwire(t, args...); code != exitFault || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q without a login: exit %d, %s%s", args, code, out, errs)
		}
	}
	// granted runs a command that succeeds and logs in logins times.
	granted := func(logins int, want string, args ...string) {
		t.Helper()
		code, out, errs := login(t, args...)
		if code != exitOK || !strings.Contains(out, want) || strings.Count(errs, "To log in") != logins {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errs)
		}
	}
	denied("not logged in to "+url+": add -login", call...)
	granted(1, `{"sum":3}`, append(call, "-login")...)
	granted(0, `{"sum":3}`, call...)
	granted(0, `{"sum":3}`, append(call, "-era", "session")...)
	granted(0, "add", "tools", "-login", url)
	denied("does not permit this: add -login", change...)
	granted(1, "Changed.", append(change, "-login")...)
	granted(0, "Changed.", change...)
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("the file with the login: %v, %v", info, err)
	}
	if code, _, errs := mcpwire(t, "logout", url); code != exitOK || errs != "" {
		t.Errorf("logout: exit %d, %s", code, errs)
	}
	denied("not logged in", call...)
	denied("cannot connect", append(call, "-token", "hunter2")...)
}

// A damaged file of logins fails only the commands that need a login.
func TestDamagedLoginsFailNoOtherCommands(t *testing.T) {
	file := ownSettings(t)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := serveOverHTTP(t, "serve", "-http", "localhost:0")
	if code, out, errs := mcpwire(t, "call", open, "add", "a=1", "b=2"); code != exitOK || !strings.Contains(out, `{"sum":3}`) {
		t.Errorf("server without authorization: exit %d, %s%s", code, out, errs)
	}
	protected := serveOverHTTP(t, "serve", "-http", "localhost:0", "-auth", "trial", "-auth-approve")
	for _, args := range [][]string{{"call", protected, "add", "a=1", "b=2"}, {"tools", "-login", open}, {"logout", protected}} {
		if code, _, errs := mcpwire(t, args...); code != exitFault || !strings.Contains(errs, "is damaged: remove it, and log in again") {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}

func TestToken(t *testing.T) {
	ownSettings(t)
	var got string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer web.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, recipient string
		args           []string
		want           string
	}{
		{"", "", nil, ""},
		{"", "", []string{"-token", "hunter2"}, "Bearer hunter2"},
		{"", "", []string{"-token", "@" + file}, "Bearer of-a-file"},
		{"of-env", web.URL, nil, "Bearer of-env"},
		{"@" + file, web.URL + "/other/path", nil, "Bearer of-a-file"},
		{"of-env", "https://other.example/mcp", nil, ""},
		{"of-env", strings.Replace(web.URL, "http:", "https:", 1), nil, ""},
		{"of-env", "", []string{"-token", "hunter2"}, "Bearer hunter2"},
		{"of-env", "", []string{"-header", "Authorization: Basic x"}, "Basic x"},
	} {
		t.Setenv(tokenEnv, c.env)
		t.Setenv(tokenForEnv, c.recipient)
		got = ""
		code, _, errs := mcpwire(t, append([]string{"tools", web.URL}, c.args...)...)
		if code != exitFault || got != c.want || regexp.MustCompile("hunter2|of-a-file|of-env").MatchString(errs) {
			t.Errorf("%q with %s for %s: exit %d, the server gets %q, errors %s", c.args, c.env, c.recipient, code, got, errs)
		}
	}
}

func TestTokenOfEnvironmentNeedsRecipient(t *testing.T) {
	ownSettings(t)
	t.Setenv(tokenEnv, "of-env")
	for _, recipient := range []string{"", "example.com"} {
		t.Setenv(tokenForEnv, recipient)
		code, _, errs := mcpwire(t, "tools", "http://localhost/")
		if code != exitUsage || !strings.Contains(errs, tokenForEnv) || strings.Contains(errs, "of-env") {
			t.Errorf("for %q: exit %d, %s", recipient, code, errs)
		}
	}
}

// Standard error may be a log.
func TestLoginWithoutTerminalShowsNoCode(t *testing.T) {
	ownSettings(t)
	url := serveOverHTTP(t, "serve", "-http", "localhost:0", "-auth", "trial", "-auth-approve")
	code, out, errs := login(t, "tools", "-login", url)
	if code != exitOK || !strings.Contains(out, "add") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if strings.Contains(errs, "code=") {
		t.Errorf("the authorization code is shown: %s", errs)
	}
}

func TestAuthorizationFlagsAreChecked(t *testing.T) {
	ownSettings(t)
	for _, args := range [][]string{
		{"tools", "-login", "-token", "x", "http://localhost/"},
		{"tools", "-login", "-header", "Authorization: x", "http://localhost/"},
		{"tools", "-token", "x", "-header", "authorization: x", "http://localhost/"},
		{"tools", "-client-secret-file", "x", "http://localhost/"},
		{"tools", "-client-id", "x", "-client-secret-file", "x", "http://localhost/"},
		{"tools", "-issuer", "x", "http://localhost/"},
		{"tools", "-login", "-issuer", "", "http://localhost/"}, // as of a variable that is not set
		{"tools", "-token", "", "http://localhost/"},
		{"tools", "-client-id", "", "http://localhost/"},
		{"tools", "-client-secret-file", "", "http://localhost/"},
		{"tools", "-scope", "", "http://localhost/"},
		{"tools", "-issuer", "http://localhost", "weather-server"},
		{"tools", "-login", "weather-server"},
		{"tools", "-scope", "x", "weather-server"},
		{"logout"},
		{"logout", "weather-server"},
		{"logout", "http://a", "http://b"},
		{"serve", "-auth", "trial"},
		{"serve", "-auth", "other", "-http", "localhost:0"},
		{"serve", "-auth-approve", "-http", "localhost:0"},
		{"serve", "-auth", "trial", "-http", "0.0.0.0:0"},
	} {
		if code, out, errs := mcpwire(t, args...); code != exitUsage || out != "" || errs == "" {
			t.Errorf("%q: exit %d, %s%s", args, code, out, errs)
		}
	}
}

func TestRecordUsesTheLogin(t *testing.T) {
	ownSettings(t)
	url := serveOverHTTP(t, "serve", "-http", "localhost:0", "-auth", "trial", "-auth-approve")
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	record := []string{"record", "-o", file, "-http", "localhost:0", url}
	call := func(recorder string, args ...string) (code int, output string) {
		code, out, errs := mcpwire(t, append([]string{"call", recorder}, args...)...)
		return code, out + errs
	}
	before := strings.TrimPrefix(serveOverHTTP(t, record...), "recording at ")
	if code, output := call(before, "add", "a=1", "b=2"); code != exitFault {
		t.Errorf("without a login: exit %d, %s", code, output)
	}
	if code, _, errs := login(t, "tools", "-login", url); code != exitOK {
		t.Fatalf("login: exit %d, %s", code, errs)
	}
	recorder := strings.TrimPrefix(serveOverHTTP(t, record...), "recording at ")
	for _, era := range []string{"modern", "session"} {
		if code, output := call(recorder, "-era", era, "add", "a=1", "b=2"); code != exitOK || !strings.Contains(output, `{"sum":3}`) {
			t.Errorf("-era %s: exit %d, %s", era, code, output)
		}
	}
	if code, output := call(recorder, "test_trigger_tool_change"); code != exitFault {
		t.Errorf("with too few scopes: exit %d, %s", code, output)
	}
	if code, output := call(recorder, "-token", "own", "add", "a=1", "b=2"); code != exitFault || !strings.Contains(output, "401") {
		t.Errorf("with a token of the client: exit %d, %s", code, output)
	}
	if code, _, errs := mcpwire(t, "record", "-o", file, "-login", "weather-server"); code != exitUsage {
		t.Errorf("-login with a command: exit %d, %s", code, errs)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `{"sum":3}`) || strings.Contains(string(text), "Bearer") {
		t.Errorf("the recording is %s, %v", text, err)
	}
}

// protectedServer serves an MCP server behind a trial authorization server with the client "app".
// With named false, the server does not say which authorization server it uses. clients counts the
// requests that clients have authenticated or registered with.
func protectedServer(t *testing.T, named bool) (link, issuer string, clients *atomic.Int64) {
	t.Helper()
	clients = new(atomic.Int64)
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/auth/"):
			clients.Add(1)
		case !named && strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource"):
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	link, issuer = web.URL+"/mcp", web.URL+"/auth"
	logins, err := trial.New(trial.Options{
		Issuer: issuer, Approve: true,
		Clients: []trial.Client{{ID: "app", Secret: auth.NewSecret("hunter2"), RedirectURIs: []string{registeredURI}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	protector, err := auth.NewProtector(auth.Options{Resource: link, Issuers: []string{issuer}, Verifier: logins})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New("protected", "1", nil)
	server.AddTool(s, "hello", "Greets.", func(context.Context, *server.Call, struct{}) (string, error) { return "Hi", nil })
	h := must.Get(s.Handler(&streamable.HandlerOptions{Auth: protector}))
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	handler = logins.Handler(protector.Handler(h))
	return link, issuer, clients
}

func TestSecretIsSentOnlyToTheNamedIssuer(t *testing.T) {
	ownSettings(t)
	link, issuer, clients := protectedServer(t, true)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"call", "-login", "-client-id", "app", "-client-secret-file", file, link, "hello"}
	if code, _, errs := mcpwire(t, command...); code != exitUsage || !strings.Contains(errs, "-client-secret-file needs -issuer") {
		t.Errorf("without an issuer: exit %d, %s", code, errs)
	}
	code, _, errs := mcpwire(t, append(command, "-issuer", "http://127.0.0.1:9/auth")...)
	if code != exitFault || !strings.Contains(errs, "the server names ["+strconv.Quote(issuer)+"]") || clients.Load() != 0 {
		t.Errorf("with another issuer: exit %d, %d requests of clients, %s", code, clients.Load(), errs)
	}
	code, out, errs := login(t, append(command, "-issuer", issuer)...)
	if code != exitOK || !strings.Contains(out, "Hi") || clients.Load() != 1 {
		t.Errorf("exit %d, %d requests of clients, %s%s", code, clients.Load(), out, errs)
	}
}

func TestIssuerOfServerWithoutMetadata(t *testing.T) {
	ownSettings(t)
	link, issuer, _ := protectedServer(t, false)
	if code, _, errs := mcpwire(t, "call", "-login", link, "hello"); code != exitFault || !strings.Contains(errs, "add -issuer URL") {
		t.Errorf("without an issuer: exit %d, %s", code, errs)
	}
	if code, out, errs := login(t, "call", "-login", "-issuer", issuer, link, "hello"); code != exitOK || !strings.Contains(out, "Hi") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if code, out, errs := mcpwire(t, "call", link, "hello"); code != exitOK || !strings.Contains(out, "Hi") {
		t.Errorf("with the stored login: exit %d, %s%s", code, out, errs)
	}
}
