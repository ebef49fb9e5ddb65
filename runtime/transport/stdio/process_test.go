package stdio_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// connect starts a child process and opens a session with it.
func connect(t *testing.T, c stdio.Command) (*session.Session, stdio.Process) {
	t.Helper()
	p, err := stdio.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := session.Connect(t.Context(), p, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "test", Version: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, p
}

// call calls a tool and returns the text of its result.
func call(t *testing.T, s *session.Session, tool, arguments string) (string, error) {
	t.Helper()
	outcome, err := mcp.ToServer{Caller: s}.CallTool(t.Context(), &mcp.CallToolRequestParams{Name: tool, Arguments: []byte(arguments)})
	if err != nil {
		return "", err
	}
	return outcome.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text, nil
}

// Proves STDIO-01, STDIO-02, STDIO-03, STDIO-05, STDIO-06, STDIO-07, LIFE-15, M-STDIO-02,
// M-STDIO-05.
func TestServerInChildProcess(t *testing.T) {
	var stderr buffer
	c := child(t, "server")
	c.Stderr = &stderr
	s, _ := connect(t, c)
	for _, size := range []int{10, 1000, 5 << 20} {
		text := `{"text":"` + strings.Repeat("ä", size/2) + `"}`
		got, err := call(t, s, "echo", text)
		if err != nil {
			t.Fatal(err)
		}
		if got != text {
			t.Errorf("the echo of %d bytes has %d bytes", len(text), len(got))
		}
	}
	if got, err := call(t, s, "lines", `{}`); err != nil || got != "a\nb\r\nc" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := call(t, s, "noise", `{}`); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the child did not exit by itself: %v", err)
	}
	if got := strings.Count(stderr.String(), "noise\n"); got != 200_000 {
		t.Errorf("%d lines of standard error arrived", got)
	}
}

func TestStderrMayBeDiscarded(t *testing.T) {
	s, _ := connect(t, child(t, "server"))
	if _, err := call(t, s, "noise", `{}`); err != nil {
		t.Error(err)
	}
}

// Proves STDIO-08, JSONRPC-01, JSONRPC-11, M-STDIO-02.
func TestServerWritesOnlyMessagesToStdout(t *testing.T) {
	c := child(t, "server")
	cmd := exec.Command(c.Path)
	cmd.Env = c.Env
	cmd.Stdin = strings.NewReader(strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		``,
		`no JSON`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"\xff",
		strings.Repeat("x", 9<<20),
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"print"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"panic"}}`,
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"lines"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"ping"}`,
	}, "\n"))
	var stderr buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(out)) {
		m, err := jsonrpc.Parse([]byte(line))
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		key := m.ID.String() + " " + m.Kind.String()
		if m.Error != nil {
			key += fmt.Sprint(" ", m.Error.Code)
		}
		got[strings.TrimSpace(key)]++
	}
	want := map[string]int{"error response -32700": 3, "1 response": 1, "2 response": 1, "3 error response -32603": 1, "4 response": 1, "5 response": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, place := range []string{"at the start", "in a tool", "at the end"} {
		if !strings.Contains(stderr.String(), "a stray print "+place+"\n") {
			t.Errorf("the stray print %s is lost", place)
		}
	}
}

func TestServerReadsAndWritesFiles(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	text := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"print"}}
{"jsonrpc":"2.0","id":3,"method":"ping"}
`
	if err := os.WriteFile(in, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	stdin, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	c := child(t, "server")
	cmd := exec.Command(c.Path)
	cmd.Env, cmd.Stdin, cmd.Stdout = c.Env, stdin, stdout
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(got)) {
		m, err := jsonrpc.Parse([]byte(line))
		if err != nil || m.Kind != jsonrpc.KindResponse {
			t.Errorf("%q: %v", line, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("got %d answers", n)
	}
}

// Proves LIFE-17.
func TestServerMayExitBeforeStdinIsClosed(t *testing.T) {
	s, p := connect(t, child(t, "server"))
	if _, err := call(t, s, "stop", `{}`); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v, want %v", err, session.ErrClosed)
	}
	if err := s.Wait(); err != nil {
		t.Errorf("the session ended with an error: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestServerAnswersAfterCloseWrite(t *testing.T) {
	p, err := stdio.Start(child(t, "echoes at end of input"))
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	for i := range n {
		if err := p.Write(t.Context(), transport.Message{Text: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.CloseWrite(); err != nil {
		t.Error(err)
	}
	for i := range n {
		if m, err := p.Read(); err != nil || string(m.Text) != fmt.Sprint(i) {
			t.Fatalf("got %q, %v, want %d", m.Text, err, i)
		}
	}
	if _, err := p.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("after the last answer: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// Proves STDIO-09, M-STDIO-03.
func TestClientWritesOnlyMessagesToStdin(t *testing.T) {
	var stderr buffer
	c := child(t, "echoes to stderr")
	c.Stderr = &stderr
	c.ExitTimeout = time.Minute // the child exits by itself at the end of its input
	p, err := stdio.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), transport.Message{Text: []byte("{\n\"jsonrpc\":\"2.0\",\r\n\"method\":\"x\"\n}\n")}); err != nil {
		t.Fatal(err)
	}
	_, err = session.Connect(t.Context(), p, nil, &session.Options{Timeouts: session.Timeouts{Request: 300 * time.Millisecond}})
	if !errors.Is(err, session.ErrTimeout) {
		t.Errorf("got %v, want %v", err, session.ErrTimeout)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(stderr.String(), "\n"), "\n")
	if len(lines) != 2 {
		t.Errorf("got %q, want two messages", lines)
	}
	for _, line := range lines {
		if _, err := jsonrpc.Parse([]byte(line)); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestEnvironmentIsPassedExplicitly(t *testing.T) {
	t.Setenv("MCPWIRE_SECRET", "x")
	c := child(t, "server")
	c.Env = append(c.Env, "MCPWIRE_ALLOWED=yes")
	s, _ := connect(t, c)
	got, err := call(t, s, "environment", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "MCPWIRE_SECRET") || !strings.Contains(got, "MCPWIRE_ALLOWED=yes") || !strings.Contains(got, "PATH=") {
		t.Errorf("the child has the environment\n%s", got)
	}
}

// Proves LIFE-16, M-STDIO-06.
func TestCloseTerminatesOrKillsServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	for _, c := range []struct {
		mode, want string
		term       time.Duration // an hour for a process that does terminate
	}{
		{"waits for a signal", "terminated", time.Hour},
		{"ignores signals", "killed", time.Millisecond},
	} {
		t.Run(c.mode, func(t *testing.T) {
			command := child(t, c.mode)
			var stderr buffer
			command.Stderr = &stderr
			p, err := stdio.Start(command)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Read(); err != nil { // the child is ready
				t.Fatal(err)
			}
			stdio.SetTimeouts(p, time.Millisecond, c.term)
			err = p.Close()
			if err == nil || !strings.HasSuffix(err.Error(), "was "+c.want) {
				t.Errorf("got %v", err)
			}
			if got := strings.Contains(stderr.String(), "terminated"); got != (c.want == "terminated") {
				t.Errorf("standard error is %q", stderr.String())
			}
			if p.Close() != err {
				t.Error("the second Close returned another error")
			}
		})
	}
}

// Proves LIFE-17.
func TestCallsFailWhenServerExits(t *testing.T) {
	p, err := stdio.Start(child(t, "exits"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = session.Connect(t.Context(), p, nil, nil)
	if !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v, want %v", err, session.ErrClosed)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit status 3", err)
	}
}

func TestStartFailsForMissingProgram(t *testing.T) {
	if p, err := stdio.Start(stdio.Command{Path: "./no-such-program"}); err == nil {
		t.Errorf("started %v", p.PID())
	}
}

func TestWriteToExitedServerFails(t *testing.T) {
	p, err := stdio.Start(child(t, "exits"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for range 1_000_000 {
		err = p.Write(t.Context(), transport.Message{Text: []byte(`{}`)})
		if err != nil {
			break
		}
	}
	if !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

func TestServerErrorIncludesLastStderrLines(t *testing.T) {
	process, err := stdio.Start(child(t, "fails"))
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	_, err = process.Read()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || !strings.Contains(err.Error(), `"no licence"`) {
		t.Errorf("got %v", err)
	}
}

// A server that closes its input and lives on answers no request. Read fails after the first write.
func TestReadFailsIfServerClosesItsInput(t *testing.T) {
	c := child(t, "closes its input")
	c.ExitTimeout = time.Millisecond
	process, err := stdio.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	if _, err := process.Read(); err != nil { // the input is closed
		t.Fatal(err)
	}
	if err := process.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Read(); !errors.Is(err, transport.ErrClosed) || !strings.Contains(err.Error(), "peer does not read") {
		t.Errorf("got %v", err)
	}
}

// blockedWriter is a writer whose Write blocks until the channel is closed.
type blockedWriter chan struct{}

func (b blockedWriter) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

func TestCloseDoesNotWaitForBlockedStderr(t *testing.T) {
	stderr := make(blockedWriter)
	defer close(stderr)
	c := child(t, "fails")
	c.Stderr = stderr
	process, err := stdio.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	err = process.Close()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 {
		t.Errorf("got %v, want exit status 3", err)
	}
}

// failingWriter is a writer that fails.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestServerSurvivesBrokenStderr(t *testing.T) {
	c := child(t, "server")
	c.Stderr = failingWriter{}
	s, p := connect(t, c)
	if _, err := call(t, s, "noise", `{}`); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// The grace period of a server ends before its client terminates it, so that the server can close
// its stores.
func TestServerGraceIsShorterThanExitTimeout(t *testing.T) {
	if engine.DefaultGrace > stdio.DefaultExitTimeout/2 {
		t.Errorf("requests may run for %v, and the client terminates the server after %v", engine.DefaultGrace, stdio.DefaultExitTimeout)
	}
}
