// Package recorder stands between clients and a server, passes on what they say, and records it.
//
// A client is on standard input and output or comes over HTTP, and a server is a command or a URL. Where both sides are
// of a kind, nothing is changed on the way: the bytes of standard input and output, or the requests and answers of HTTP
// with their headers, streams and sessions. Else messages go from one transport to the other, each with its text as it
// is.
package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// Server is a server that is talked to: a URL, or the words of a command.
type Server struct {
	URL     string
	Command []string    // if URL is ""; it gets the environment of this process
	Header  http.Header // goes to the URL with every request
	Stderr  io.Writer   // gets what the command writes to standard error, and what is wrong with one that was started for a client over HTTP; nil discards it
}

// String returns the URL or the command of the server. It leaves out the user and the query of the
// URL and the arguments of the command, which may be secret.
func (s Server) String() string {
	if s.URL == "" {
		return s.Command[0]
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "a server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// stopTimeout is how long a server that was asked to terminate may take, and how long one that has ended may be
// outlived by its output.
const stopTimeout = 5 * time.Second

// Pipe runs a command and records what goes to and fro between it and in and out, byte for byte, until it ends. When ctx
// does, the command is asked to terminate.
func Pipe(ctx context.Context, log *trace.Log, server Server, in io.Reader, out io.Writer) error {
	talk := log.Session("")
	cmd := exec.CommandContext(ctx, server.Command[0], server.Command[1:]...)
	cmd.Stderr = server.Stderr
	cmd.WaitDelay = stopTimeout
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) != nil { // no such thing on this system
			return cmd.Process.Kill()
		}
		return nil
	}
	toClient := talk.Tap(mcp.FromServer, out)
	cmd.Stdout = toClient
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	talk.Event("start: " + server.String()) // in front of what the server says first
	if err := cmd.Start(); err != nil {
		talk.Event("not started: " + err.Error())
		return err
	}
	go func() { // ends with the input, or with the first that comes once the server is gone
		toServer := talk.Tap(mcp.FromClient, stdin)
		io.Copy(toServer, in) // a server that takes no more is about to end
		toServer.End()
		stdin.Close()
	}()
	ended := cmd.Wait()
	toClient.End()
	talk.Event("ended: " + cmd.ProcessState.String())
	return ended
}

// connect opens a conversation with the server.
func (s Server) connect(talk *trace.Session) (transport.Conn, error) {
	talk.Event("start: " + s.String()) // in front of what the server says first
	var conn transport.Conn
	var err error
	if s.URL != "" {
		o := streamable.ClientOptions{}
		o.Header = s.Header
		conn, err = streamable.Dial(s.URL, o)
	} else {
		conn, err = stdio.Start(stdio.Command{
			Path: s.Command[0], Args: s.Command[1:], Env: os.Environ(), Stderr: s.Stderr, ExitTimeout: stopTimeout,
		})
	}
	if err != nil {
		talk.Event("not started: " + err.Error())
		return nil, err
	}
	return conn, nil
}

// Forward records the conversation between a client, at the other end of a connection, and a server, until one of them
// ends it or ctx does. It closes the connection.
func Forward(ctx context.Context, log *trace.Log, server Server, client transport.Conn) error {
	talk := log.Session("")
	conn, err := server.connect(talk)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	err = newBridge(talk, client, conn).run(ctx)
	if err != nil {
		talk.Event("ended: " + err.Error())
		return fmt.Errorf("%s: %w", server, err)
	}
	talk.Event("ended")
	return nil
}
