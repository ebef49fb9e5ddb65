package server_test

import (
	"bufio"
	"bytes"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// program returns the source of a program in testdata, which is formatted and has at most max lines
// that are not blank. With overHTTP, the program serves HTTP instead of standard input and output.
func program(t *testing.T, name string, max int, overHTTP bool) []byte {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata", name, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	if formatted, err := format.Source(source); err != nil || !bytes.Equal(formatted, source) {
		t.Errorf("%s is not formatted: %v", name, err)
	}
	if overHTTP {
		source = bytes.Replace(source, []byte("s.ServeStdio(context.Background())"), []byte(`s.ListenAndServe(context.Background(), "localhost:0", nil)`), 1)
	}
	lines := 0
	for line := range strings.Lines(string(source)) {
		if strings.TrimSpace(line) != "" {
			lines++
		}
	}
	if lines > max {
		t.Errorf("%s has %d lines, want at most %d", name, lines, max)
	}
	return source
}

// build builds a program and returns its path.
func build(t *testing.T, source []byte) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the go command")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	if text, err := exec.Command("go", "build", "-o", binary, filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

// started is a program that serves HTTP.
type started struct {
	url    string
	cmd    *exec.Cmd
	stderr io.Reader
}

// start starts a program that serves HTTP in a folder, and reads its URL from the log.
func start(t *testing.T, binary, dir string) *started {
	t.Helper()
	p := &started{cmd: exec.CommandContext(t.Context(), binary)}
	p.cmd.Dir = dir
	pipe, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := bufio.NewReader(pipe)
	p.stderr = log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := log.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, p.url, _ = strings.Cut(strings.TrimSpace(line), "url=")
	return p
}

// end asks the program to end, and returns the rest of its log.
func (p *started) end(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
	return string(rest)
}

// greeted calls the tool of the program hello.
func greeted(t *testing.T, c *client.Client) {
	t.Helper()
	result, err := c.CallTool(t.Context(), "greet", map[string]string{"Name": "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if got := result.Content[0].(*mcp.TextContent).Text; got != "Hi, Ada" {
		t.Errorf("got %q", got)
	}
}

func TestHelloWorldHas15Lines(t *testing.T) {
	t.Run("stdio", func(t *testing.T) {
		binary := build(t, program(t, "hello", 15, false))
		for name, end := range map[string]func(p stdio.Process, c *client.Client){
			"client closes": func(_ stdio.Process, c *client.Client) { c.Close() },
			"signal": func(p stdio.Process, c *client.Client) {
				if runtime.GOOS == "windows" {
					t.Skip("there are no signals")
				}
				process, err := os.FindProcess(p.PID())
				if err == nil {
					err = process.Signal(syscall.SIGTERM)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.Wait() // the server closes its standard output
				c.Close()
			},
		} {
			t.Run(name, func(t *testing.T) {
				var log bytes.Buffer
				p, err := stdio.Start(stdio.Command{Path: binary, Stderr: &log})
				if err != nil {
					t.Fatal(err)
				}
				c, err := client.Connect(t.Context(), p, nil)
				if err != nil {
					t.Fatal(err)
				}
				greeted(t, c)
				end(p, c)
				if got := log.String(); got != "" {
					t.Errorf("log of the server: %s", got)
				}
			})
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there are no signals")
		}
		p := start(t, build(t, program(t, "hello", 15, true)), "")
		c, err := client.Dial(t.Context(), p.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		greeted(t, c)
		if rest := p.end(t); rest != "" {
			t.Errorf("log of the server: %s", rest)
		}
		c.Close()
	})
}

// A mistake ends the program with the line of the call.
func TestProgramReportsMistakes(t *testing.T) {
	source := bytes.Replace(program(t, "hello", 15, false), []byte(`"greet", `), []byte(`"greet people", `), 1)
	out, err := exec.Command(build(t, source)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), ` main.go:16: server: tool name "greet people": want `) {
		t.Errorf("%v: %s", err, out)
	}
}

// The result of a task survives a restart of the program.
func TestDurableServerHas17Lines(t *testing.T) {
	finish := func(t *testing.T, c *client.Client, id string) {
		t.Helper()
		result, err := c.AttachTool(id).Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Content[0].(*mcp.TextContent).Text; got != "Solaris.mp4" {
			t.Errorf("got %q", got)
		}
	}
	begin := func(t *testing.T, c *client.Client) string {
		t.Helper()
		h, err := c.StartTool(t.Context(), "render", map[string]string{"Title": "Solaris"})
		if err != nil {
			t.Fatal(err)
		}
		finish(t, c, h.ID())
		return h.ID()
	}
	t.Run("stdio", func(t *testing.T) {
		command := stdio.Command{Path: build(t, program(t, "durable", 17, false)), Dir: t.TempDir(), Stderr: io.Discard}
		open := func() *client.Client {
			c, err := client.Command(t.Context(), command, &client.Options{Session: session.Options{Revisions: session.Revisions()}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		c := open()
		id := begin(t, c)
		c.Close()
		c = open()
		finish(t, c, id)
		listed := 0
		for task, err := range c.Tasks(t.Context()) {
			if err != nil || task.TaskID != id {
				t.Errorf("listed %+v, %v", task, err)
			}
			listed++
		}
		if listed != 1 {
			t.Errorf("%d tasks are listed", listed)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("there are no signals")
		}
		binary, dir := build(t, program(t, "durable", 17, true)), t.TempDir()
		var id string
		for _, use := range []func(c *client.Client){
			func(c *client.Client) { id = begin(t, c) },
			func(c *client.Client) { finish(t, c, id) },
		} {
			p := start(t, binary, dir)
			c, err := client.Dial(t.Context(), p.url, &client.Options{Session: session.Options{Revisions: session.Revisions()}})
			if err != nil {
				t.Fatal(err)
			}
			use(c)
			if rest := p.end(t); rest != "" {
				t.Errorf("log of the server: %s", rest)
			}
			c.Close()
		}
	})
}
