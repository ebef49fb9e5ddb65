package stdio_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// childEnv is the environment variable that selects the behaviour of the test binary as a child
// process.
const childEnv = "MCPWIRE_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "server":
		server()
	case "closes its input":
		os.Stdin.Close()
		fmt.Println("{}")
		time.Sleep(time.Hour)
	case "exits":
		bufio.NewScanner(os.Stdin).Scan()
		os.Exit(3)
	case "fails":
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	case "waits for a signal":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("{}")
		<-signals
		fmt.Fprintln(os.Stderr, "terminated")
	case "ignores signals":
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("{}")
		time.Sleep(time.Hour)
	case "echoes at end of input":
		text, _ := io.ReadAll(os.Stdin)
		os.Stdout.Write(text)
	case "echoes to stderr":
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			fmt.Fprintln(os.Stderr, in.Text())
		}
	}
}

// child returns the command that starts the test binary as a child process in a mode of TestMain.
func child(t *testing.T, mode string) stdio.Command {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// By default, a program with the race detector sleeps for a second when it exits.
	return stdio.Command{Path: path, Env: append(stdio.DefaultEnv(), childEnv+"="+mode, "GORACE=atexit_sleep_ms=0")}
}

// server serves tools over standard input and output.
func server() {
	conn := stdio.Server(stdio.Options{MaxMessage: 8 << 20})
	fmt.Println("a stray print at the start")
	s := session.Serve(conn, &mcp.InitializeResult{
		Capabilities: mcp.ServerCapabilities{Tools: &mcp.ServerCapabilitiesTools{}},
		ServerInfo:   mcp.Implementation{Name: "child", Version: "1"},
	}, &session.Options{Handler: sessiontest.ServerHandler(tools{}, nil)})
	if err := s.Wait(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("a stray print at the end")
	// The last goroutine may be about to return.
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > 1; runtime.Gosched() {
		if time.Now().After(end) {
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			os.Exit(1)
		}
	}
}

type tools struct{ mcp.UnimplementedServerHandler }

func (tools) CallTool(ctx context.Context, p *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	text := ""
	switch p.Name {
	case "print":
		fmt.Println("a stray print in a tool")
	case "panic":
		panic("in a tool")
	case "echo":
		text = string(p.Arguments)
	case "stop":
		req, _ := session.FromContext(ctx)
		req.Session.Internals(boundary.Caller{}).StartClose()
	case "lines":
		text = "a\nb\r\nc"
	case "environment":
		text = strings.Join(os.Environ(), "\n")
	case "noise":
		fmt.Fprint(os.Stderr, strings.Repeat("noise\n", 200_000))
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}}, nil
}
