package main

import (
	"bufio"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// echoEnv makes the test program a server that echoes its input. With the value "exits" the server
// exits during its response to the first line. With "never reads" it writes its process id to
// standard error and does not read.
const echoEnv = "MCPWIRE_TEST_ECHO"

// echo runs the server in a mode of echoEnv. It returns the exit status.
func echo(mode string) int {
	switch mode {
	case "exits":
	case "never reads":
		fmt.Fprintln(os.Stderr, os.Getpid())
		time.Sleep(time.Hour)
	default:
		io.Copy(os.Stdout, os.Stdin)
		return 0
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	fmt.Print(`{"jsonrpc":"2.0","id":1,"res`)
	return 3
}

// recorded is a line of a recording.
type recorded struct {
	Time, Session, Event, From, Method, Type, Error, Text string
	Size                                                  int
	Message                                               json.RawMessage
	Bytes                                                 []byte
}

func recordedIn(t *testing.T, file string) (list []recorded) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %.200s", err, line)
		}
		list = append(list, r)
	}
	return list
}

// recordEcho records the messages between input and the test program as an echo server.
func recordEcho(t *testing.T, mode, input string) (code int, out, errs, file string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(echoEnv, mode)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	file = filepath.Join(t.TempDir(), "talk.ndjson")
	var stdout, stderr strings.Builder
	code = run(t.Context(), streams{strings.NewReader(input), &stdout, &stderr}, []string{"record", "-o", file, program})
	return code, stdout.String(), stderr.String(), file
}

func TestRecordForwardsUnchanged(t *testing.T) {
	const (
		list  = `{"jsonrpc": "2.0", "id":1, "method":"tools/list",  "params":{"<b>":"\u003c"}}`
		odd   = `{"jsonrpc":"2.0","method":"x/unknown","params":{"n":1.50}}`
		torn  = `{"jsonrpc":"2.0",`
		bytes = "\xff\x00"
	)
	long := `{"jsonrpc":"2.0","method":"long","params":{"x":"` + strings.Repeat("y", 1<<20) + `"}}`
	huge := strings.Repeat("z", transport.DefaultMaxMessage+1)
	input := list + "\r\n\n" + odd + "\n" + torn + "\n" + bytes + "\n" + long + "\n" + huge + "\n" + "end"
	code, out, errs, file := recordEcho(t, "all", input)
	if code != exitOK || errs != "" {
		t.Errorf("exit %d, errors %q", code, errs)
	}
	if out != input {
		t.Errorf("forwarded %d bytes as %d different ones", len(input), len(out))
	}
	got := map[string][]recorded{}
	for _, r := range recordedIn(t, file) {
		if r.Time == "" {
			t.Errorf("no time in %+v", r)
		}
		if r.Event == "" {
			from := r.From
			r.From = ""
			got[from] = append(got[from], r)
		}
	}
	want := []recorded{
		{Method: "tools/list", Type: "mcp.PaginatedRequestParams", Message: json.RawMessage(list)},
		{Method: "x/unknown", Message: json.RawMessage(odd)},
		{Text: torn},
		{Bytes: []byte(bytes)},
		{Method: "long", Message: json.RawMessage(long)},
		{Size: len(huge)},
		{Text: "end"},
	}
	ignore := cmpopts.IgnoreFields(recorded{}, "Time", "Session", "Error")
	for _, from := range []string{"client", "server"} {
		if diff := cmp.Diff(want, got[from], ignore); diff != "" {
			t.Errorf("from %s (-want +got):\n%.3000s", from, diff)
		}
		for _, r := range got[from] {
			if faulty := r.Text != "" || r.Bytes != nil; faulty != (r.Error != "") {
				t.Errorf("error %q with %.100s%s%s", r.Error, r.Message, r.Text, r.Bytes)
			}
		}
	}

	picture := filepath.Join(t.TempDir(), "talk.svg")
	if code, _, errs := mcpwire(t, "trace", file, "-svg", picture); code != exitOK {
		t.Errorf("trace: exit %d, %s", code, errs)
	}
	checkDrawing(t, picture, "tools/list", "x/unknown", "not understood", "16777217 bytes, too long to be kept")
}

// checkDrawing checks that a drawing is well-formed XML and contains the given texts.
func checkDrawing(t *testing.T, picture string, wants ...string) {
	t.Helper()
	text, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("drawing: %v", err)
		}
	}
	for _, want := range wants {
		if !strings.Contains(string(text), want) {
			t.Errorf("the drawing lacks %q:\n%.3000s", want, text)
		}
	}
}

func TestRecordFailsIfServerFails(t *testing.T) {
	in, client := io.Pipe() // the client does not close it
	defer client.Close()
	go io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n") // ends when the line is read
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(echoEnv, "exits")
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	var out, errs strings.Builder
	code := run(t.Context(), streams{in, &out, &errs}, []string{"record", "-o", file, program})
	if half := `{"jsonrpc":"2.0","id":1,"res`; code != exitFault || !strings.Contains(errs.String(), "exit status 3") || out.String() != half {
		t.Errorf("exit %d, output %q, errors %q", code, &out, &errs)
	}
	code, list, stderr := mcpwire(t, "trace", file)
	for _, want := range []string{"start: ", "client ──▶ server  ping\n", "client ◀── server  not understood: ", "ended: exit status 3\n"} {
		if code != exitOK || stderr != "" || !strings.Contains(list, want) {
			t.Errorf("exit %d, errors %q, no %q in:\n%s", code, stderr, want, list)
		}
	}
}

func TestRecordReportsServerThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	file, missing := filepath.Join(dir, "talk.ndjson"), filepath.Join(dir, "missing")
	code, out, errs := mcpwire(t, "record", "-o", file, missing, "-x")
	if code != exitFault || out != "" || !strings.Contains(errs, missing) {
		t.Errorf("exit %d, output %q, errors %q", code, out, errs)
	}
	list := recordedIn(t, file)
	if len(list) != 2 || list[0].Event != "start: "+missing || !strings.HasPrefix(list[1].Event, "not started: ") {
		t.Errorf("got %+v", list)
	}
}

// onWrite is a writer that calls a function for each Write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) {
	f()
	return len(p), nil
}

func TestRecordTerminatesServer(t *testing.T) {
	in, client := io.Pipe() // the client does not close it
	defer client.Close()
	go io.WriteString(client, "{}\n") // ends when it is read
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(echoEnv, "all")
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs strings.Builder
	code := run(ctx, streams{in, onWrite(cancel), &errs}, []string{"record", "-o", file, program})
	list := recordedIn(t, file)
	if last := list[len(list)-1]; code != exitFault || !strings.HasPrefix(last.Event, "ended: ") {
		t.Errorf("exit %d, errors %q, at last %+v", code, &errs, last)
	}
}

// mainProgram returns the path and the environment with which the test program runs as the command.
func mainProgram(t *testing.T) (program string, env []string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(mainEnv, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return program, append(stdio.DefaultEnv(), mainEnv+"=1", "GORACE=atexit_sleep_ms=0")
}

// serveEverything serves the everything server over HTTP and returns its URL.
func serveEverything(t *testing.T) (url string) {
	t.Helper()
	store := memory.New()
	v, err := newService(t.Context(), store, true)
	if err != nil {
		t.Fatal(err)
	}
	handler := must.Get(v.server.Handler(nil))
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Close()
		web.Close()
		v.server.Close()
		store.Close()
	})
	return web.URL + "/some/path"
}

// recordWeb runs the recorder for clients over HTTP. It returns its URL and a function that ends it
// and returns the exit code.
func recordWeb(t *testing.T, file, server string) (url string, end func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, from := io.Pipe()
	code := make(chan int, 1)
	go func() { // ends with ctx
		code <- run(ctx, streams{strings.NewReader(""), from, os.Stderr}, []string{"record", "-o", file, "-http", "localhost:0", server})
		from.Close()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the recorder prints %q: %v", line, err)
	}
	return strings.TrimSpace(strings.TrimPrefix(line, "recording at ")), func() int {
		cancel()
		return <-code
	}
}

// The recorder works between all combinations of transports, also for a task that requests input.
// The recording has every message with its session and type, and the drawing shows them.
func TestRecordBetweenAllTransports(t *testing.T) {
	program, env := mainProgram(t)
	for _, test := range []struct {
		name          string
		overHTTP, web bool // whether clients and server use HTTP
	}{
		{"a command", false, false},
		{"a URL", false, true},
		{"a command for clients over HTTP", true, false},
		{"a URL for clients over HTTP", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file, picture := filepath.Join(dir, "talk.ndjson"), filepath.Join(dir, "talk.svg")
			server := program + " serve"
			if test.web {
				server = serveEverything(t)
			}
			end, url := func() int { return exitOK }, ""
			if test.overHTTP {
				url, end = recordWeb(t, file, server)
			}
			handles := make(chan *requestor.Handle[*mcp.CallToolResult], 1)
			connect := func(name string) *client.Client {
				o := &client.Options{Info: mcp.Implementation{Name: name, Version: "1"}, Session: session.Options{Revisions: session.Revisions()}}
				o.Input.Fill = func(ctx context.Context, _ *client.FormRequest) (*mcp.ElicitResult, error) {
					h := <-handles
					if state, err := h.Refresh(ctx); err != nil || state.Status != mcp.TaskStatusInputRequired {
						t.Errorf("during the input request the task is %s, %v", state.Status, err)
					}
					return client.Accept(nil) // the defaults
				}
				var c *client.Client
				var err error
				if test.overHTTP {
					c, err = client.Dial(t.Context(), url, o)
				} else {
					c, err = client.Command(t.Context(), stdio.Command{Path: program, Args: []string{"record", "-o", file, server}, Env: env, Stderr: os.Stderr}, o)
				}
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			taskClient, callClient := connect("with-task"), connect("without")
			h, err := taskClient.StartTool(t.Context(), "countdown", map[string]any{"from": 0, "ask": true}, requestor.Progress())
			if err != nil {
				t.Fatal(err)
			}
			handles <- h
			if result, err := callClient.CallTool(t.Context(), "add", map[string]int{"a": 1, "b": 2}); err != nil || string(result.StructuredContent) != `{"sum":3}` {
				t.Errorf("got %v, %v", result, err)
			}
			if result, err := h.Result(t.Context()); err != nil || result.Content[0].(*mcp.TextContent).Text != "Lift-off!" {
				t.Errorf("got %v, %v", result, err)
			}
			for _, c := range []*client.Client{taskClient, callClient} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			if code := end(); code != exitOK {
				t.Errorf("exit %d", code)
			}

			sessions := map[string]map[string]int{} // counts of types by session
			for _, r := range recordedIn(t, file) {
				if r.Error != "" || r.Time == "" || r.Session == "" || r.Size > 0 {
					t.Errorf("recorded: %+v", r)
				}
				if sessions[r.Session] == nil {
					sessions[r.Session] = map[string]int{}
				}
				sessions[r.Session][strings.TrimSpace(r.From+" "+r.Type)]++
			}
			var tasks, calls []string
			for name, types := range sessions {
				if types["client mcp.InitializeRequestParams"] != 1 || types["server mcp.InitializeResult"] != 1 || types["server mcp.CallToolResult"] != 1 {
					t.Errorf("in session %s: %v", name, types)
				}
				if types["server mcp.CreateTaskResult"] == 1 && types["server mcp.ElicitRequestFormParams"] == 1 && types["client mcp.ElicitResult"] == 1 {
					tasks = append(tasks, name)
				} else {
					calls = append(calls, name)
				}
			}
			if len(tasks) != 1 || len(calls) != 1 {
				t.Errorf("want one session with a task and one without, got %q and %q", tasks, calls)
			}

			if code, out, errs := mcpwire(t, "trace", file, "-svg", picture); code != exitOK || out != "" || errs != "" {
				t.Errorf("trace: exit %d, output %q, errors %q", code, out, errs)
			}
			checkDrawing(t, picture, ">1 with-task<", ">2 without<", ">mcpwire-everything<", "tools/call: countdown, as a task", "tools/call: add",
				"elicitation/create: Is everything ready?", "result of elicitation/create: accept", ">working<", ">input_required<", ">completed<")
		})
	}
}

func TestTraceReportsInvalidLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	text := `{"time":"2026-01-02T03:04:05Z","from":"client","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}
{"from":"unknown"}
{"time":"2026-01-02T03:04:06.5Z","from":"server","message":{"jsonrpc":"2.0","id":1,"result":{}}}
{"time":"2026-01`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := mcpwire(t, "trace", file)
	if code != exitFault || !strings.Contains(errs, "line 2: ") || !strings.Contains(errs, "line 4: ") {
		t.Errorf("exit %d, errors %q", code, errs)
	}
	want := "  0.000 s  client ──▶ server  ping\n  1.500 s  client ◀── server  result of ping\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, args := range [][]string{{"trace"}, {"trace", file, "more"}, {"trace", file, "-x"}, {"record"}, {"record", "-o", file}, {"record", "serve"}} {
		if code, _, _ := mcpwire(t, args...); code != exitUsage {
			t.Errorf("%q: exit %d", args, code)
		}
	}
}

func TestRecordingFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(echoEnv, "all")
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := mcpwire(t, "record", "-o", file, program, "--token=SECRET"); code != exitOK {
		t.Errorf("exit %d, errors %q", code, errs)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "SECRET") {
		t.Errorf("recorded (%v):\n%s", err, text)
	}
}

func TestTraceDoesNotOverwriteRecording(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "talk.ndjson"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, link); err != nil {
		t.Skip(err)
	}
	for _, svg := range []string{file, link} {
		if code, _, errs := mcpwire(t, "trace", "-svg", svg, file); code != exitUsage || !strings.Contains(errs, "replace the recording") {
			t.Errorf("exit %d, errors %q", code, errs)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{}\n" {
		t.Errorf("recording: %q, %v", text, err)
	}
}

// Over HTTP, requests of a revision without sessions have a recording of their own. It shows the names
// of both sides and the rounds of input.
func TestRecordModernRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "talk.ndjson")
	url, end := recordWeb(t, file, serveEverything(t))
	var out, errs strings.Builder
	for range 2 {
		code := run(t.Context(), streams{strings.NewReader("Ann\nblue\n"), &out, &errs}, []string{"call", "-era", "modern", url, "test_input_required_result_multi_round"})
		if code != exitOK {
			t.Fatalf("exit %d, errors %q", code, &errs)
		}
		mcpwire(t, "call", "-era", "session", url, "test_simple_text")
	}
	end()
	code, list, _ := mcpwire(t, "trace", file)
	for _, want := range []string{
		"1   client ◀── server  result of server/discover: 2026-07-28, ",
		"1   client ◀── server  result of tools/call: input required, step1 (elicitation/create)",
		"1   client ──▶ server  tools/call: test_input_required_result_multi_round, with input step2",
		"1   client ◀── server  result of tools/call: Ann likes blue.",
	} {
		if code != exitOK || strings.Count(list, want) != 2 {
			t.Errorf("exit %d, %q is not twice in\n%s", code, want, list)
		}
	}
	if n := strings.Count(list, "  initialize\n"); n != 2 || strings.Contains(list, "1   client ──▶ server  initialize") {
		t.Errorf("%d handshakes in\n%s", n, list)
	}
	picture := filepath.Join(t.TempDir(), "talk.svg")
	mcpwire(t, "trace", "-svg", picture, file)
	text, err := os.ReadFile(picture)
	if err != nil || !strings.Contains(string(text), ">mcpwire-everything<") || !strings.Contains(string(text), ">1 mcpwire<") {
		t.Errorf("%v; names are not in\n%s", err, text)
	}
}
