package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// serverEnv is the environment variable that makes the test program a server on standard input and
// output. The server stores its tasks in the file that the variable names.
const serverEnv = "MCPWIRE_TEST_SERVER"

// failingEnv makes that server exit with status 3.
const failingEnv = "MCPWIRE_TEST_FAILING"

// mainEnv makes the test program run the command.
const mainEnv = "MCPWIRE_TEST_MAIN"

func TestMain(m *testing.M) {
	if mode := os.Getenv(echoEnv); mode != "" {
		os.Exit(echo(mode))
	}
	if os.Getenv(mainEnv) != "" {
		main()
	}
	file := os.Getenv(serverEnv)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := runServer(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(failingEnv) != "" {
		os.Exit(3)
	}
}

func runServer(file string) error {
	handler := (&fixture{ended: make(chan struct{})}).handle
	manager, err := task.New(context.Background(), task.Options{
		Store: bolt.File(file), Recovery: task.Recovery{Recover: func(r task.Record) task.Work { return receiver.Work(handler, r) }},
	})
	if errors.Is(err, task.ErrLocked) {
		fmt.Fprintln(os.Stderr, err)
		return serveFixture(stdio.Server(stdio.Options{}), handler, nil).Wait()
	}
	if err != nil {
		return err
	}
	defer manager.Close(context.Background())
	return serveFixture(stdio.Server(stdio.Options{}), handler, manager).Wait()
}

// serveFixture is a server for tests.
func serveFixture(conn transport.Conn, handler session.Handler, manager *task.Manager) *session.Session {
	capabilities := mcp.ServerCapabilities{
		Tools: new(mcp.ServerCapabilitiesTools), Resources: new(mcp.ServerCapabilitiesResources), Prompts: new(mcp.ServerCapabilitiesPrompts),
	}
	cfg := &session.Options{Handler: handler}
	if manager != nil {
		capabilities.Tasks = receiver.ServerCapabilities(true)
		receiver.Attach(cfg, receiver.Options{Manager: manager, Support: func(_ context.Context, req *session.Request) (receiver.Support, error) {
			mode := mcp.TaskSupportOptional
			if toolOf(req).Name == "slow" {
				mode = mcp.TaskSupportRequired
			}
			return receiver.Support{Mode: mode, Restartable: true}, nil
		}})
	}
	return session.Serve(conn, &mcp.InitializeResult{
		ServerInfo: mcp.Implementation{Name: "fixture", Version: "1"}, Capabilities: capabilities,
	}, cfg)
}

func toolOf(req *session.Request) (p mcp.CallToolRequestParams) {
	codec.Unmarshal(req.Params, &p)
	return p
}

// fixture serves requests. The tool sign requires the user to visit a page once.
type fixture struct {
	ended   chan struct{} // never closed; blocks the tool slow
	visited bool
	step    chan struct{} // the tool steps receives from it before each report and before it returns
}

func (f *fixture) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	switch req.Method {
	case "tools/list":
		return session.Raw(`{"tools":[
			{"name":"echo","title":"Echo","description":"Says it.\nAgain.","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","description":"a number"},"s":{"type":"string"},"any":{}}},"execution":{"taskSupport":"optional"}},
			{"name":"ask","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},
			{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}},
			{"name":"steps","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}},
			{"name":"fail","inputSchema":{"type":"object"}},
			{"name":"sign","inputSchema":{"type":"object"}}]}`), nil
	case "resources/list":
		return session.Raw(`{"resources":[{"name":"a","uri":"x:a","title":"A","description":"First."}]}`), nil
	case "resources/templates/list":
		return session.Raw(`{"resourceTemplates":[{"name":"t","uriTemplate":"x:{t}"}]}`), nil
	case "prompts/list":
		return session.Raw(`{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true,"description":"whom"},{"name":"how\nlong"}]}]}`), nil
	case "tools/call":
		return f.call(ctx, toolOf(req))
	}
	return nil, nil
}

func (f *fixture) call(ctx context.Context, p mcp.CallToolRequestParams) (codec.Encoder, error) {
	peer, _ := session.PeerFrom(ctx)
	switch p.Name {
	case "echo":
		for i := range 4 {
			peer.Report(session.Progress{Value: float64(i + 1), Total: new(4.0), Message: "step"})
		}
		return textResult(string(p.Arguments)), nil
	case "ask":
		answer, err := mcp.ToClient{Caller: peer}.Elicit(ctx, &mcp.ElicitRequestFormParams{
			Message: "Which?", RequestedSchema: mcp.ElicitRequestFormParamsRequestedSchema{
				Properties: map[string]mcp.PrimitiveSchemaDefinition{"colour": &mcp.StringSchema{}}, Required: []string{"colour"},
			},
		})
		if err != nil {
			return nil, err
		}
		result := answer.(*mcp.ElicitResult)
		result.Meta = nil // may name the task
		text, err := codec.Marshal(result)
		return textResult(string(text)), err
	case "slow":
		select {
		case <-ctx.Done():
		case <-f.ended:
		}
		return nil, context.Cause(ctx)
	case "steps":
		for i := range 3 {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-f.step:
			}
			if i < 2 {
				peer.Report(session.Progress{Value: float64(i + 1), Total: new(2.0), Message: fmt.Sprint("step ", i+1)})
			}
		}
		return textResult("done"), nil
	case "sign":
		if !f.visited {
			f.visited = true
			return nil, &jsonrpc.Error{Code: -32042, Message: "sign in\nmcpwire: run this", Data: json.RawMessage(
				`{"elicitations":[{"mode":"url","message":"Sign in","url":"https://x.example/in","elicitationId":"e"}]}`)}
		}
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"in":true}`)}, nil
	}
	return &mcp.CallToolResult{IsError: new(true), Content: []mcp.ContentBlock{&mcp.TextContent{Text: "it broke"}}}, nil
}

func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}}
}

// commandLine runs commands with a server in a test.
type commandLine struct {
	t      *testing.T
	server string
	flags  []string
}

// newCommandLine returns a commandLine whose server is a process that stores its tasks in a file.
func newCommandLine(t *testing.T) *commandLine {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &commandLine{t, program, []string{"-env", serverEnv + "=" + filepath.Join(t.TempDir(), "tasks")}}
}

// run runs a command with p.server in place of SERVER, and p.flags after the name of the command.
func (p *commandLine) run(ctx context.Context, input, line string) (code int, stdout, stderr string) {
	p.t.Helper()
	name, rest, _ := strings.Cut(line, " -- ")
	args := append(strings.Fields(name), p.flags...)
	for _, word := range strings.Fields(rest) {
		if word == "SERVER" {
			word = p.server
		}
		args = append(args, word)
	}
	var out, errs strings.Builder
	code = run(ctx, streams{strings.NewReader(input), &out, &errs}, args)
	return code, out.String(), errs.String()
}

func TestRemoteCommands(t *testing.T) {
	p := newCommandLine(t)
	for _, test := range []struct {
		line, input string
		code        int
		out         string
		errs        []string // substrings of standard error
	}{
		{line: "call -- SERVER echo n=1 s=2 any=x", out: `{"any":"x","n":1,"s":"2"}` + "\n", errs: []string{"100 % step"}},
		{line: "call -json -- SERVER echo n=1 any=[1]", out: `{"content":[{"type":"text","text":"{\"any\":[1],\"n\":1}"}]}` + "\n"},
		{line: "call -task -- SERVER echo n=1", out: `{"n":1}` + "\n", errs: []string{"task "}},
		{line: "call -- SERVER echo n=x", code: exitUsage, errs: []string{`argument "n": "x" is not of type integer`}},
		{line: "call -- SERVER echo n", code: exitUsage, errs: []string{`"n" is not of the form KEY=VALUE`}},
		{line: "call -- SERVER ech", code: exitFault, errs: []string{"no tool ech; did you mean echo?"}},
		{line: "call -- SERVER fail", code: exitFault, errs: []string{"it broke\n"}},
		{line: "call -json -- SERVER fail", code: exitFault, out: `{"content":[{"type":"text","text":"it broke"}],"isError":true}` + "\n"},
		{line: "call -task -- SERVER fail", code: exitFault, errs: []string{"does not support tasks"}},
		{line: "call -- SERVER ask", input: "red\n", out: `{"action":"accept","content":{"colour":"red"}}` + "\n", errs: []string{"\"fixture\" asks:\n  | Which?\n"}},
		{line: "call -task -- SERVER ask", input: "red\n", out: `{"action":"accept","content":{"colour":"red"}}` + "\n", errs: []string{"input_required"}},
		{line: "call -- SERVER ask", code: exitFault, errs: []string{"elicitation"}},
		{line: "call -- SERVER sign", input: "yes\n", out: "{\n  \"in\": true\n}\n", errs: []string{"https://x.example/in"}},
		{line: "call -- SERVER sign", input: "no\n", code: exitFault, errs: []string{"sign in\n  | mcpwire: run this"}},
		{line: "tools -- SERVER", out: "echo  Echo (as a task: optional)\n    Says it.\n    Again.\n    any=  (anything)\n    n=  (integer, required) a number\n    s=  (string)\n" +
			"ask  (as a task: optional)\nslow  (as a task: required)\nsteps  (as a task: optional)\nfail\nsign\n"},
		{line: "resources -- SERVER", out: "x:a  A\n    First.\nx:{t}  t\n"},
		{line: "resources -json -- SERVER", out: `{"description":"First.","name":"a","title":"A","uri":"x:a"}` + "\n" + `{"name":"t","uriTemplate":"x:{t}"}` + "\n"},
		{line: "prompts -- SERVER", out: "greet\n    who=  (text, required) whom\n    how long=  (text)\n"},
		{line: "task get -- SERVER none", code: exitFault, errs: []string{"-32602"}},
		{line: "tools -- /no/such/program", code: exitFault, errs: []string{"/no/such/program"}},
		{line: "tools -header x -- SERVER", code: exitUsage, errs: []string{"no colon"}},
		{line: "tools -header x:y -- SERVER", code: exitUsage, errs: []string{"-header is for servers at a URL"}},
		{line: "tools -- http://127.0.0.1:9/mcp", code: exitUsage, errs: []string{"-env is for servers that are commands"}},
		{line: "call -ttl 1h -- SERVER echo n=1", code: exitUsage, errs: []string{"-ttl is for tasks"}},
		{line: "call -task -ttl -1h -- SERVER echo n=1", code: exitUsage, errs: []string{"-ttl -1h0m0s is negative"}},
		{line: "tools -- '", code: exitUsage, errs: []string{"neither a URL nor a command"}},
		{line: "tools --", code: exitUsage, errs: []string{"SERVER"}},
		{line: "call -- SERVER", code: exitUsage, errs: []string{"TOOL"}},
		{line: "task list -- SERVER x", code: exitUsage, errs: []string{"SERVER"}},
	} {
		t.Run(test.line, func(t *testing.T) {
			code, out, errs := p.run(t.Context(), test.input, test.line)
			if code != test.code {
				t.Errorf("exit %d, want %d; errors:\n%s", code, test.code, errs)
			}
			if diff := cmp.Diff(test.out, out); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
			for _, want := range test.errs {
				if !strings.Contains(errs, want) {
					t.Errorf("errors lack %q:\n%s", want, errs)
				}
			}
		})
	}
}

// If the server fails after the call, the command writes the result and reports the exit status.
func TestEnvironmentOfCommand(t *testing.T) {
	t.Setenv("MCPWIRE_TEST_SET", "1")
	t.Setenv("MCPWIRE_TEST_EMPTY", "")
	env, err := values{"MCPWIRE_TEST_SET", "MCPWIRE_TEST_EMPTY", "MCPWIRE_TEST_OTHER=a=b"}.environment()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MCPWIRE_TEST_SET=1", "MCPWIRE_TEST_EMPTY=", "MCPWIRE_TEST_OTHER=a=b"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for arg, want := range map[string]string{"MCPWIRE_TEST_UNSET": "MCPWIRE_TEST_UNSET: the variable is not set", "=x": `"=x" has no name`, "": "it is empty"} {
		code, _, errs := mcpwire(t, "tools", "-env", arg, "weather-server")
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("-env %q: exit %d, %s", arg, code, errs)
		}
	}
}

func TestServerExitStatusIsReported(t *testing.T) {
	p := newCommandLine(t)
	p.flags = append(p.flags, "-env", failingEnv+"=1")
	code, out, errs := p.run(t.Context(), "", "call -- SERVER echo n=1")
	if code != exitFault || out != `{"n":1}`+"\n" || !strings.Contains(errs, "but the server process failed: exit status 3\n") {
		t.Errorf("exit %d, output %q, errors:\n%s", code, out, errs)
	}
}

// watcher is a writer that calls then once text has been written to it.
type watcher struct {
	strings.Builder
	text string
	then func()
}

func (w *watcher) Write(b []byte) (int, error) {
	n, err := w.Builder.Write(b)
	if w.then != nil && strings.Contains(w.Builder.String(), w.text) {
		w.then()
		w.then = nil
	}
	return n, err
}

// After Ctrl-C a task continues: other server processes can show and cancel it.
func TestDetachAndReattach(t *testing.T) {
	p := newCommandLine(t)
	ctx, interrupt := context.WithCancel(t.Context())
	errs := &watcher{text: "task ", then: interrupt}
	var out strings.Builder
	args := append(append([]string{"call"}, p.flags...), p.server, "slow")
	if code := run(ctx, streams{strings.NewReader(""), &out, errs}, args); code != exitFault || out.Len() > 0 {
		t.Errorf("exit %d, output %q, errors:\n%s", code, &out, errs)
	}
	m := regexp.MustCompile(`mcpwire task watch \S+ (\S+)\n`).FindStringSubmatch(errs.String())
	if m == nil {
		t.Fatalf("no command to reattach:\n%s", errs)
	}
	id := m[1]
	for _, test := range []struct {
		line, out string
		code      int
	}{
		{"task list -- SERVER", "^" + id + "  working  .*\n$", exitOK},
		{"task get -json -- SERVER " + id, `"status":"working","taskId":"` + id + `"`, exitOK},
		{"task cancel -- SERVER " + id, "^" + id + "  cancelled ", exitOK},
		{"task result -- SERVER " + id, "^$", exitFault},
		{"task watch -- SERVER " + id, "^$", exitFault},
	} {
		code, out, errs := p.run(t.Context(), "", test.line)
		if code != test.code || !regexp.MustCompile(test.out).MatchString(out) {
			t.Errorf("%s: exit %d, output %q, errors:\n%s", test.line, code, out, errs)
		}
	}
	done := run(t.Context(), streams{strings.NewReader(""), &out, new(strings.Builder)}, append(append([]string{"call", "-task"}, p.flags...), p.server, "echo", "n=1"))
	_, list, _ := p.run(t.Context(), "", "task list -json -- SERVER")
	m = regexp.MustCompile(`"completed","taskId":"([^"]+)"`).FindStringSubmatch(list)
	if done != exitOK || m == nil {
		t.Fatalf("exit %d, tasks:\n%s", done, list)
	}
	for _, verb := range []string{"watch", "result"} {
		if code, out, errs := p.run(t.Context(), "", "task "+verb+" -- SERVER "+m[1]); code != exitOK || out != `{"n":1}`+"\n" {
			t.Errorf("%s: exit %d, output %q, errors:\n%s", verb, code, out, errs)
		}
	}
}

// Without a terminal, the command to reattach may be written to a log.
func TestCommandToReattachOmitsSecrets(t *testing.T) {
	url := serveOverHTTP(t, "serve", "-http", "localhost:0")
	ctx, interrupt := context.WithCancel(t.Context())
	errs := &watcher{text: "task ", then: interrupt}
	secret := strings.Replace(url, "http://", "http://ann:secret@", 1) + "?key=secret"
	if code := run(ctx, streams{strings.NewReader(""), io.Discard, errs}, []string{"call", "-task", secret, "slow_compute", "seconds=60"}); code != exitFault {
		t.Errorf("exit %d", code)
	}
	if text := errs.String(); !strings.Contains(text, "mcpwire task watch "+url+" ") || strings.Contains(text, "secret") {
		t.Errorf("errors:\n%s", text)
	}
}

// If another process has the tasks of a server, the commands about tasks say what to do.
func TestTasksOfLockedStore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tasks")
	store, err := bolt.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	p := newCommandLine(t)
	p.flags = []string{"-env", serverEnv + "=" + file}
	for _, line := range []string{"task list -- SERVER", "task get -- SERVER x", "task watch -- SERVER x", "task cancel -- SERVER x", "call -task -- SERVER echo n=1"} {
		code, _, errs := p.run(t.Context(), "", line)
		if code != exitFault || !strings.Contains(errs, file+": task: store is in use by another process") || !strings.Contains(errs, "end that process") {
			t.Errorf("%s: exit %d, errors:\n%s", line, code, errs)
		}
	}
	if code, out, errs := p.run(t.Context(), "", "call -- SERVER echo n=1"); code != exitOK {
		t.Errorf("plain call: exit %d, output %q, errors:\n%s", code, out, errs)
	}
}

// lineWriter is a writer that calls line for each line.
type lineWriter struct {
	strings.Builder
	line func(string)
}

func (a *lineWriter) Write(b []byte) (int, error) {
	a.line(string(b))
	return a.Builder.Write(b)
}

// A process that did not create a task can watch its progress.
func TestTaskWatch(t *testing.T) {
	for _, test := range []struct{ name, out, errs string }{
		{"-json", `^{"task":{[^\n]*"status":"working"[^\n]*}}
{"progress":{"progress":1,"total":2,"message":"step 1"}}
{"progress":{"progress":2,"total":2,"message":"step 2"}}
{"task":{[^\n]*"status":"completed"[^\n]*}}
{"result":{[^\n]*"content":\[{"type":"text","text":"done"}\]}}
$`, "^$"},
		{"-json=false", "^done\n$", "^working\n 50 % step 1\n100 % step 2\ncompleted\n$"},
	} {
		t.Run(test.name, func(t *testing.T) {
			manager, err := task.New(t.Context(), task.Options{Store: memory.New()})
			if err != nil {
				t.Fatal(err)
			}
			defer manager.Close(context.Background())
			f := &fixture{step: make(chan struct{}, 3)}
			handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
				serveFixture(conn, f.handle, manager)
			}, streamable.HandlerOptions{})
			defer handler.Close()
			s := httptest.NewServer(handler)
			defer s.Close()

			ctx, interrupt := context.WithCancel(t.Context())
			created := &watcher{text: "task ", then: interrupt}
			run(ctx, streams{strings.NewReader(""), new(strings.Builder), created}, []string{"call", "-task", s.URL, "steps"})
			id, _, _ := strings.Cut(strings.TrimPrefix(created.String(), "task "), "\n")
			proceed := func(line string) { // lets the tool continue once its last report was shown
				if strings.Contains(line, "working") || strings.Contains(line, "step") {
					f.step <- struct{}{}
				}
			}
			out, errs := &lineWriter{line: proceed}, &lineWriter{line: proceed}
			code := run(t.Context(), streams{strings.NewReader(""), out, errs}, []string{"task", "watch", test.name, s.URL, id})
			if code != exitOK || !regexp.MustCompile(test.out).MatchString(out.String()) || !regexp.MustCompile(test.errs).MatchString(errs.String()) {
				t.Errorf("exit %d, output:\n%s\nerrors:\n%s", code, out, errs)
			}
		})
	}
}

// No text of a server begins a line in the list of tasks.
func TestStateOfTaskIsOneLine(t *testing.T) {
	const text = "a\nb"
	out := new(strings.Builder)
	r := &remote{streams: streams{out: out}}
	if err := r.writeState(mcp.Task{TaskID: text, Status: text, CreatedAt: text, LastUpdatedAt: text, StatusMessage: new(text)}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestCallFetchesAllParts(t *testing.T) {
	server := serveEverything(t)
	code, out, errs := mcpwire(t, "call", server, "alphabet", "letters=10")
	if code != exitOK || out != "abcdefghij\nklmnopqrst\nuvwxyz\n" || errs != "part 2:\npart 3:\n" {
		t.Errorf("exit %d, output %q, errors %q", code, out, errs)
	}
	code, out, _ = mcpwire(t, "call", "-json", "-era", "session", server, "alphabet", "letters=13")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitOK || len(lines) != 2 || !strings.Contains(lines[0], `"nextResumeToken"`) || lines[1] != `{"content":[{"type":"text","text":"nopqrstuvwxyz"}]}` {
		t.Errorf("exit %d, output %q", code, out)
	}
}

// The era of a call is what the server supports, or that of -era. That of tasks is the one with
// sessions, or that of -era.
func TestEra(t *testing.T) {
	server := serveEverything(t)
	record := recorderFor(t, server)
	for _, test := range []struct {
		args    []string
		methods string
	}{
		{[]string{"call"}, "server/discover tools/list tools/call"},
		{[]string{"call", "-era", "modern"}, "server/discover tools/list tools/call"},
		{[]string{"call", "-era", "session"}, "initialize notifications/initialized tools/list tools/call"},
	} {
		file := record(append(test.args, "SERVER", "test_simple_text")...)
		var methods []string
		for _, r := range recordedIn(t, file) {
			if r.From == "client" {
				methods = append(methods, r.Method)
			}
		}
		if got := strings.Join(methods, " "); got != test.methods {
			t.Errorf("%q sends %s, want %s", test.args, got, test.methods)
		}
	}
	for _, args := range [][]string{{"task", "list", "-era", "modern", server}, {"tools", "-era", "old", server}} {
		if code, _, errs := mcpwire(t, args...); code != exitUsage || !strings.Contains(errs, "era") {
			t.Errorf("%q: exit %d, errors %q", args, code, errs)
		}
	}
	if code, out, errs := mcpwire(t, "call", "-task", server, "countdown", "from=0"); code != exitOK || out != "Lift-off!\n" {
		t.Errorf("task: exit %d, output %q, errors %q", code, out, errs)
	}
	code, out, errs := mcpwire(t, "call", "-task", "-era", "modern", server, "slow_compute", "seconds=1", "label=it")
	if code != exitOK || !strings.HasPrefix(out, "Computed it.") {
		t.Fatalf("task of revision 2026-07-28: exit %d, output %q, errors %q", code, out, errs)
	}
	_, id, _ := strings.Cut(errs, "task ")
	id, _, _ = strings.Cut(id, "\n")
	for _, row := range []struct{ verb, want string }{{"get", "completed"}, {"result", "Computed it."}, {"watch", "Computed it."}, {"cancel", "completed"}} {
		if code, out, errs := mcpwire(t, "task", row.verb, "-era", "modern", server, id); code != exitOK || !strings.Contains(out, row.want) {
			t.Errorf("task %s %q: exit %d, output %q, errors %q", row.verb, id, code, out, errs)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	detached := &watcher{text: "task ", then: interrupt}
	run(ctx, streams{strings.NewReader(""), new(strings.Builder), detached}, []string{"call", "-task", "-era", "modern", server, "slow_compute", "seconds=60", "label=it"})
	if !strings.Contains(detached.String(), "\n  mcpwire task watch -era modern "+server+" ") {
		t.Errorf("no command to reattach:\n%s", detached)
	}
}

// recorderFor returns a function that runs a command with a recorder in place of SERVER, and
// returns the recording.
func recorderFor(t *testing.T, server string) func(args ...string) (file string) {
	return func(args ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "talk.ndjson")
		url, end := recordWeb(t, file, server)
		args[slices.Index(args, "SERVER")] = url
		if code, _, errs := mcpwire(t, args...); code != exitOK {
			t.Errorf("%q: exit %d, errors %q", args, code, errs)
		}
		end()
		return file
	}
}

func TestServerByURL(t *testing.T) {
	headers := make(chan string, 100)
	handler := streamable.NewHandler(func(r *http.Request, conn transport.Conn) {
		headers <- r.Header.Get("X-Key")
		serveFixture(conn, (&fixture{}).handle, nil)
	}, streamable.HandlerOptions{})
	defer handler.Close()
	s := httptest.NewServer(handler)
	defer s.Close()
	p := &commandLine{t, s.URL, []string{"-header", "X-Key: secret"}}
	code, out, errs := p.run(t.Context(), "", "call -- SERVER echo n=1")
	if code != exitOK || out != `{"n":1}`+"\n" || <-headers != "secret" {
		t.Errorf("exit %d, output %q, errors:\n%s", code, out, errs)
	}
}

// A command that waits for a server says so.
func TestWaitingIsReported(t *testing.T) {
	p := newCommandLine(t)
	p.flags, p.server = nil, "sleep 1000"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &watcher{text: "waiting for sleep 1000 to respond", then: cancel}
	if code := run(ctx, streams{strings.NewReader(""), io.Discard, w}, []string{"tools", p.server}); code != exitFault || w.then != nil {
		t.Errorf("exit %d, errors:\n%s", code, w)
	}
}

func TestConnectErrorsOmitSecrets(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	secret := strings.Replace(s.URL, "http://", "http://ann:secret@", 1) + "/mcp?key=secret"
	for _, server := range []string{secret, strings.Replace(secret, "@", "/@", 1)} {
		code, _, errs := mcpwire(t, "call", server, "echo")
		if code != exitFault || !strings.Contains(errs, "cannot connect to ") || strings.Contains(errs, "secret") {
			t.Errorf("exit %d, errors:\n%s", code, errs)
		}
	}
}
