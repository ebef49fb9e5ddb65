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

// Command is a server to be started as a child process.
type Command struct {
	Path string   // the program; one without a slash is looked for in PATH
	Args []string // its arguments, without the name of the program
	Dir  string   // its working directory; "" is that of this process

	// Env is the environment, in the form "NAME=value", and all of it. Nil means [DefaultEnv], rather than what
	// this process has: secrets are handed on by name only.
	Env []string

	// Apart gives the process a process group of its own, where the system has such: a Ctrl-C at the terminal
	// then reaches this process alone, which can end the server in order. When Close has to terminate or
	// kill the server, it does so to the whole group, such as a shell and the server that the shell runs.
	Apart bool

	// Stderr receives the server's standard error, which is not part of the protocol. If it is nil,
	// the error of a server that fails has the last lines, and the rest is discarded. A Write that
	// blocks stops the server when its pipe is full, but does not keep Close from returning. After a
	// Write that fails, the rest is discarded.
	Stderr io.Writer

	// ExitTimeout is how long Close waits for the process to end, first after its standard input was closed, and
	// again after it was asked to terminate; default two seconds.
	ExitTimeout time.Duration

	// Options are the limits of the connection.
	Options Options
}

// waitDelay is how long a process that has ended may be outlived by its output, which a child of its own may hold, and
// by a Write of standard error that blocks. What the process has written is read even later, see output.
const waitDelay = time.Second

const defaultExitTimeout = 2 * time.Second

// Process is the client's end: a connection with a server that was started as a child process. It is a
// [transport.HalfCloser]. When the server ends by itself, Read fails with an error that tells how: it wraps
// [transport.ErrClosed] for exit status 0 and an [*exec.ExitError] else.
type Process struct {
	conn        *Conn
	cmd         *exec.Cmd
	apart       bool          // it has a process group of its own
	out         *os.File      // the server's standard output
	errors      *os.File      // its standard error; nil if the process writes to a file itself
	copied      chan struct{} // closed when all of errors has been copied
	last        *lastLines    // of standard error
	exitTimeout time.Duration // after the end of its input
	termTimeout time.Duration // after it was asked to terminate
	ended       chan struct{} // closed when the process has ended
	exited      chan struct{} // closed after that, when its standard error has been copied
	exit        error         // how the process has ended, once it has
	close       func() error
}

// Start starts a server. The process is ended by Close.
func Start(c Command) (*Process, error) {
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
	// Package exec would copy to Stderr as well, but Wait would not return while a Write blocks.
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
	p := &Process{
		conn: New(&output{File: outR}, inW, c.Options),
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
	go p.wait()               // ends with the process, which Close sees to
	return p, nil
}

// PID returns the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Read returns the next message from the server.
func (p *Process) Read() (transport.Message, error) {
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
	// The server has closed its output, or is gone.
	timer := time.NewTimer(waitDelay)
	defer timer.Stop()
	select {
	case <-p.ended:
		<-p.exited // for all of standard error
		if p.exit != nil {
			if text := p.last.String(); text != "" {
				return m, fmt.Errorf("stdio: server has ended: %w: %q", p.exit, text)
			}
			return m, fmt.Errorf("stdio: server has ended: %w", p.exit)
		}
		return m, fmt.Errorf("%w: server has ended", transport.ErrClosed)
	case <-timer.C:
		return m, fmt.Errorf("%w: server has closed its output: %w", transport.ErrClosed, err)
	}
}

// Write hands m to the server.
func (p *Process) Write(ctx context.Context, m transport.Message) error { return p.conn.Write(ctx, m) }

// CloseWrite closes the standard input of the server, which may answer what it has got before it ends.
func (p *Process) CloseWrite() error { return p.conn.CloseWrite() }

// Close ends the server: it closes its standard input and waits for it to exit; asks it to terminate (SIGTERM) if it
// does not, and waits again; and then kills it (MCP lifecycle, "Shutdown"). The error tells if that was necessary,
// or the exit status if that was not 0.
func (p *Process) Close() error { return p.close() }

func (p *Process) end() error {
	close(p.conn.closed)
	err := p.conn.hangUp()
	drained := make(chan struct{})
	go func() { // ends when the output is closed, below
		defer close(drained)
		io.Copy(io.Discard, p.out) // so that the server is not stuck in writing
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
		return errors.Join(err, fmt.Errorf("stdio: server did not end by itself and was %s", forced))
	}
	return errors.Join(err, p.exit)
}

// waitExit waits for the process to end; ok is false if that takes too long.
func (p *Process) waitExit(timeout time.Duration) (ok bool) {
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
func (p *Process) wait() {
	p.exit = p.cmd.Wait()
	p.out.SetReadDeadline(time.Now().Add(waitDelay))
	close(p.ended)
	timer := time.NewTimer(waitDelay)
	defer timer.Stop()
	select {
	case <-p.copied:
	case <-timer.C: // a child of the process holds it, or a Write blocks
	}
	if p.errors != nil {
		p.errors.Close()
	}
	close(p.exited)
}

// copyErrors copies standard error to w.
func (p *Process) copyErrors(w io.Writer) {
	defer close(p.copied)
	if p.errors == nil {
		return
	}
	if _, err := io.Copy(w, p.errors); err != nil {
		io.Copy(io.Discard, p.errors) // so that the server is not stuck in writing
	}
}

// DefaultEnv returns those variables of this process's environment that a program needs to run at all and that hold
// no secrets, such as PATH and HOME.
func DefaultEnv() []string {
	env := []string{}
	for _, name := range inherited() {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
