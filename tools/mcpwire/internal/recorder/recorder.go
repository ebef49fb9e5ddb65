// Package recorder forwards messages between clients and a server and records them.
//
// A client uses standard input and output or HTTP; a server is a command or a URL. If both sides
// use the same transport, the recorder forwards bytes unchanged, or HTTP requests and responses
// with their headers, streams and sessions. Otherwise it forwards messages from one transport to
// the other, and keeps the text of each message.
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
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// Server is the server to connect to: a URL, or the words of a command.
type Server struct {
	URL     string
	Command []string              // used if URL is ""; gets the environment of this process
	Header  http.Header           // sent with every request to the URL
	Auth    httpclient.Authorizer // authorizes the requests to the URL; nil for none
	Stderr  io.Writer             // receives standard error of the command, and errors of commands started for HTTP clients; nil discards them
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

// stopTimeout limits the time that a server may take to terminate, and the time that its output may
// remain open after it has ended.
const stopTimeout = 5 * time.Second

// Pipe runs a command, copies in to its input and its output to out unchanged, and records the
// messages. It returns when the command ends. If ctx ends, Pipe asks the command to terminate.
func Pipe(ctx context.Context, log *trace.Log, server Server, in io.Reader, out io.Writer) error {
	session := log.Session("")
	cmd := exec.CommandContext(ctx, server.Command[0], server.Command[1:]...)
	cmd.Stderr = server.Stderr
	cmd.WaitDelay = stopTimeout
	cmd.Cancel = func() error {
		if cmd.Process.Signal(syscall.SIGTERM) != nil { // signals are not supported on this system
			return cmd.Process.Kill()
		}
		return nil
	}
	toClient := session.Tap(mcp.FromServer, out)
	cmd.Stdout = toClient
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	session.Event("start: " + server.String()) // before the first message of the server
	if err := cmd.Start(); err != nil {
		session.Event("not started: " + err.Error())
		return err
	}
	go func() { // ends with the input, or with the first input after the server has ended
		toServer := session.Tap(mcp.FromClient, stdin)
		io.Copy(toServer, in) // if this fails, the server has closed its input and is about to end
		toServer.End()
		stdin.Close()
	}()
	ended := cmd.Wait()
	toClient.End()
	session.Event("ended: " + cmd.ProcessState.String())
	return ended
}

// connect connects to the server.
func (s Server) connect(session *trace.Session) (transport.Conn, error) {
	session.Event("start: " + s.String()) // before the first message of the server
	var conn transport.Conn
	var err error
	if s.URL != "" {
		o := streamable.ClientOptions{}
		o.Header, o.Auth = s.Header, s.Auth
		var client transport.Reopener
		if client, err = streamable.Dial(s.URL, o); err == nil {
			conn = &reopening{Reopener: client, lost: func(err error) { session.Event(err.Error()) }}
		}
	} else {
		conn, err = stdio.Start(stdio.Command{
			Path: s.Command[0], Args: s.Command[1:], Env: os.Environ(), Stderr: s.Stderr, ExitTimeout: stopTimeout,
		})
	}
	if err != nil {
		session.Event("not started: " + err.Error())
		return nil, err
	}
	return conn, nil
}

// Forward forwards and records messages between a client, at the other end of conn, and a server.
// It returns when either of them or ctx ends, and closes conn.
func Forward(ctx context.Context, log *trace.Log, server Server, client transport.Conn) error {
	session := log.Session("")
	conn, err := server.connect(session)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	err = newBridge(session, client, conn).run(ctx)
	if err != nil {
		session.Event("ended: " + err.Error())
		return fmt.Errorf("%s: %w", server, err)
	}
	session.Event("ended")
	return nil
}
