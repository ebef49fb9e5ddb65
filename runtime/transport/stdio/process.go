package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Command describes a server to be started as a child process.
type Command struct {
	Path string   // the program; searched in PATH if it has no slash
	Args []string // without the name of the program
	Dir  string   // the working directory; "" means that of this process

	// Env is the complete environment, in the form "NAME=value". Nil means [DefaultEnv] and not the
	// environment of this process, so that secrets are passed on only by name.
	Env []string

	// Apart runs the process in its own process group, on systems that have them. A Ctrl-C at the
	// terminal then reaches only this process, which can close the server in order. If Close has to
	// terminate or kill the server, it does so to the whole group, such as a shell and the server
	// that the shell runs.
	Apart bool

	// Stderr receives the server's standard error, which is not part of the protocol. If it is nil,
	// the error of a failed server has the last lines, and the rest is discarded. While a Write
	// blocks, the server blocks as soon as its pipe is full, but Close returns. After a Write that
	// fails, the rest is discarded.
	Stderr io.Writer

	// ExitTimeout is how long Close waits for the process to exit after closing its standard input,
	// and again after asking it to terminate; default two seconds.
	ExitTimeout time.Duration

	// Options are the limits of the connection.
	Options Options
}

// waitDelay is how long to wait for the end of the output after the process has exited: a child may
// hold the pipe open, or a Write of standard error may block. Bytes that are already in the pipe
// are read even after that; see output.
const waitDelay = time.Second

const defaultExitTimeout = 2 * time.Second

// Process is the client end of a connection to a server that runs as a child process. It is a
// [transport.HalfCloser]. When the server exits by itself, Read fails with an error that wraps
// [transport.ErrClosed] for exit status 0, otherwise an [*exec.ExitError].
type Process interface {
	transport.HalfCloser

	// PID returns the id of the process.
	PID() int
}

type process struct {
	conn        *conn
	cmd         *exec.Cmd
	apart       bool          // the process has its own process group
	out         *os.File      // the server's standard output
	errors      *os.File      // its standard error; nil if the process writes to a file itself
	copied      chan struct{} // closed when all of errors was copied
	last        *lastLines    // of standard error
	exitTimeout time.Duration // after closing standard input
	termTimeout time.Duration // after asking the process to terminate
	ended       chan struct{} // closed when the process has exited
	exited      chan struct{} // closed after ended, when standard error was copied
	exit        error         // the error of Wait; set before ended is closed
	close       func() error
}

// Start starts a server. Close ends it.
func Start(c Command) (Process, error) {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = DefaultEnv()
	}
	last := new(lastLines)
	if c.Stderr == nil {
		c.Stderr = last
	}
	if c.Apart {
		setApart(cmd)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, inR.Close(), inW.Close())
	}
	// Copying by package exec would keep Wait from returning while a Write blocks.
	errFile, direct := c.Stderr.(*os.File)
	var errR, errW *os.File
	if !direct {
		if errR, errW, err = os.Pipe(); err != nil {
			return nil, errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
		}
		errFile = errW
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errFile
	err = cmd.Start()
	err = errors.Join(err, inR.Close(), outW.Close())
	if !direct {
		err = errors.Join(err, errW.Close())
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("stdio: %s: %w", c.Path, err), inW.Close(), outR.Close())
		if !direct {
			err = errors.Join(err, errR.Close())
		}
		return nil, err
	}
	p := &process{
		conn: newConn(&output{File: outR}, inW, c.Options),
		cmd:  cmd, apart: c.Apart, out: outR, errors: errR, last: last,
		exitTimeout: c.ExitTimeout,
		copied:      make(chan struct{}),
		ended:       make(chan struct{}),
		exited:      make(chan struct{}),
	}
	if p.exitTimeout <= 0 {
		p.exitTimeout = defaultExitTimeout
	}
	p.termTimeout = p.exitTimeout
	p.close = sync.OnceValue(p.end)
	go p.copyErrors(c.Stderr) // ends with the process, unless a Write blocks
	go p.wait()               // ends with the process, which Close ends
	return p, nil
}

// PID implements [Process].
func (p *process) PID() int { return p.cmd.Process.Pid }

// Info implements [transport.Described].
func (p *process) Info() transport.Info { return p.conn.Info() }

// Read returns the next message from the server.
func (p *process) Read() (transport.Message, error) {
	m, err := p.conn.Read()
	if err == nil || errors.Is(err, transport.ErrClosed) {
		return m, err
	}
	if _, ok := errors.AsType[*transport.MessageError](err); ok {
		return m, err
	}
	if _, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return m, err
	}
	// The server has closed its output, or has exited.
	timer := time.NewTimer(waitDelay)
	defer timer.Stop()
	select {
	case <-p.ended:
		<-p.exited // standard error is complete then
		if p.exit != nil {
			if text := p.last.String(); text != "" {
				return m, fmt.Errorf("stdio: server exited: %w: %q", p.exit, text)
			}
			return m, fmt.Errorf("stdio: server exited: %w", p.exit)
		}
		return m, fmt.Errorf("%w: server exited", transport.ErrClosed)
	case <-timer.C:
		return m, fmt.Errorf("%w: server closed its output: %w", transport.ErrClosed, err)
	}
}

// Write sends m to the server.
func (p *process) Write(ctx context.Context, m transport.Message) error { return p.conn.Write(ctx, m) }

// CloseWrite closes the standard input of the server. The server may answer earlier messages before
// it exits.
func (p *process) CloseWrite() error { return p.conn.CloseWrite() }

// Close ends the server (MCP lifecycle, "Shutdown"). It closes the server's standard input and
// waits for it to exit. If it does not, Close asks it to terminate (SIGTERM) and waits again, and
// then kills it. The error reports whether that was necessary, or an exit status other than 0.
func (p *process) Close() error { return p.close() }

func (p *process) end() error {
	close(p.conn.closed)
	err := p.conn.flushAndCloseWriter()
	drained := make(chan struct{})
	go func() { // ends when the output is closed, below
		defer close(drained)
		p.out.SetReadDeadline(time.Time{}) // a failed write may have set one
		io.Copy(io.Discard, p.out)         // so that the server does not block in writing
	}()
	forced := ""
	if !p.waitExit(p.exitTimeout) {
		forced = "terminated"
		if terminate(p.cmd.Process, p.apart) != nil || !p.waitExit(p.termTimeout) {
			forced = "killed"
			kill(p.cmd.Process, p.apart)
		}
	}
	<-p.exited
	p.out.Close()
	<-drained
	if forced != "" {
		return errors.Join(err, fmt.Errorf("stdio: server did not exit and was %s", forced))
	}
	return errors.Join(err, p.exit)
}

// waitExit waits for the process to exit. It returns false after timeout.
func (p *process) waitExit(timeout time.Duration) (ok bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// wait waits for the process, and for its standard error.
func (p *process) wait() {
	p.exit = p.cmd.Wait()
	p.out.SetReadDeadline(time.Now().Add(waitDelay))
	close(p.ended)
	timer := time.NewTimer(waitDelay)
	defer timer.Stop()
	select {
	case <-p.copied:
	case <-timer.C: // a child of the process holds standard error open, or a Write blocks
	}
	if p.errors != nil {
		p.errors.Close()
	}
	close(p.exited)
}

// copyErrors copies standard error to w.
func (p *process) copyErrors(w io.Writer) {
	defer close(p.copied)
	if p.errors == nil {
		return
	}
	if _, err := io.Copy(w, p.errors); err != nil {
		io.Copy(io.Discard, p.errors) // so that the server does not block in writing
	}
}

// DefaultEnv returns the variables of this process's environment that programs need to run and that
// hold no secrets. On Windows, these are the paths of the system and of the user's folders, on other
// systems HOME, LANG, LC_ALL, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER. Settings of tools,
// such as GOMODCACHE, are not among them: a server that [Start] runs with go run or npx finds those
// that are in files of the home directory.
func DefaultEnv() []string {
	env := []string{}
	for _, name := range inherited() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
