package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// terminal is a process with its terminal.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	seen   string // all output so far
	read   int    // length of the output that after has consumed
}

// atTerminal starts the command at a new terminal.
func atTerminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	program, env := mainProgram(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals: ", err)
	}
	raw, err := master.SyscallConn() // Fd would disable deadlines
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	controlled := raw.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN); err == nil {
			err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0)
		}
	})
	if err := errors.Join(controlled, err, master.SetDeadline(time.Now().Add(time.Minute))); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no terminals: ", err)
	}
	defer slave.Close()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	return &terminal{t: t, cmd: cmd, master: master}
}

// after waits for output that contains seen, and then types.
func (u *terminal) after(seen, typed string) {
	u.t.Helper()
	buf := make([]byte, 4<<10)
	for !strings.Contains(u.seen[u.read:], seen) {
		n, err := u.master.Read(buf)
		if err != nil {
			u.t.Fatalf("no %q: %v; output:\n%q", seen, err, u.seen)
		}
		u.seen += string(buf[:n])
	}
	u.read += strings.Index(u.seen[u.read:], seen) + len(seen)
	if _, err := io.WriteString(u.master, typed); err != nil {
		u.t.Fatal(err)
	}
}

// end waits for the process and returns its exit code and the remaining output.
func (u *terminal) end() (code int, last string) {
	rest, _ := io.ReadAll(u.master) // fails once all processes have closed the terminal
	u.seen += string(rest)
	u.cmd.Wait() // ProcessState has the exit code
	return u.cmd.ProcessState.ExitCode(), strings.ReplaceAll(u.seen[u.read:], "\r\n", "\n")
}

func TestFillFormAtTerminal(t *testing.T) {
	u := atTerminal(t, "call", serveEverything(t), "test_elicitation", "message=Who?")
	u.after("\"Everything\" asks:\r\n  | Who?", "")
	u.after("username – what to call you: ", "Ann\n")
	u.after("email – where to write to: ", "a@b.example\n")
	u.after("Send this?", "yes\n")
	if code, last := u.end(); code != exitOK || !strings.HasSuffix(last, "\nThe user's answer is accept: Ann <a@b.example>.\n") {
		t.Errorf("exit %d, output %q", code, last)
	}
}

// Ctrl-C during an input request of a task offers to detach. The user can reattach later.
func TestDetachAndReattachAtTerminal(t *testing.T) {
	server := serveEverything(t)
	u := atTerminal(t, "call", "-task", server, "countdown", "from=0", "ask=true")
	u.after("(yes or no) [true]: ", "\x03")
	u.after("Cancel it, detach from it, or wait for it? [detach]: ", "detach\n")
	code, last := u.end()
	m := regexp.MustCompile(`reattach:\n  mcpwire task watch (\S+) (\S+)\n$`).FindStringSubmatch(last)
	if code != exitFault || m == nil {
		t.Fatalf("exit %d, output %q", code, last)
	}
	u = atTerminal(t, "task", "watch", m[1], m[2])
	u.after("(yes or no) [true]: ", "no\n")
	u.after("Send this?", "\n")
	if code, last := u.end(); code != exitOK || !strings.HasSuffix(last, "completed\nCalled off.\n") {
		t.Errorf("exit %d, output %q", code, last)
	}
	u = atTerminal(t, "call", "-task", server, "countdown", "from=60")
	u.after("|  ", "\x03") // the end of the bar
	u.after("Cancel it, detach from it, or wait for it? [detach]: ", "c\n")
	if code, last := u.end(); code != exitFault || !strings.HasSuffix(last, " was cancelled\n") {
		t.Errorf("exit %d, output %q", code, last)
	}
}

func TestServerCannotControlTerminal(t *testing.T) {
	const evil = "ok\x1b]0;owned\a\x1b[2J\x1b[8m\u202e\u009b2J"
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
		serveFixture(conn, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			switch {
			case req.Method == "tools/list":
				return &mcp.ListToolsResult{Tools: []mcp.Tool{{Name: "x", Title: new(evil), Description: new(evil)}, {Name: "y"}}}, nil
			case toolOf(req).Name == "y":
				return nil, errors.New(evil)
			}
			return textResult(evil), nil
		}, nil)
	}, streamable.HandlerOptions{})
	defer handler.Close()
	web := httptest.NewServer(handler)
	defer web.Close()
	for _, args := range [][]string{{"tools", web.URL}, {"tools", "-json", web.URL}, {"call", web.URL, "x"}, {"call", web.URL, "y"}} {
		u := atTerminal(t, args...)
		u.end()
		if !strings.Contains(u.seen, "ok") || strings.ContainsFunc(u.seen, func(r rune) bool { return strings.ContainsRune("\x1b\a\u202e\u009b", r) }) {
			t.Errorf("%q: output at the terminal: %q", args, u.seen)
		}
	}
	if _, out, _ := mcpwire(t, "call", web.URL, "x"); out != evil+"\n" {
		t.Errorf("output without a terminal: %q", out)
	}
}

// Terminating the command also terminates a server that does not read its input.
func TestTerminatedCommandTerminatesServer(t *testing.T) {
	program, env := mainProgram(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(program, "tools", "-env", echoEnv+"=never reads", program)
			cmd.Env = env
			errs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimPrefix(line(t, errs), "| "))
			if err != nil {
				t.Fatal(err)
			}
			cmd.Process.Signal(sig)
			io.Copy(io.Discard, errs)
			cmd.Wait() // the exit code is checked below
			if code := cmd.ProcessState.ExitCode(); code != exitFault {
				t.Errorf("exit %d", code)
			}
			if err := syscall.Kill(pid, 0); err != syscall.ESRCH {
				t.Errorf("the server is still running: %v", err)
			}
		})
	}
}
