package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/recorder"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// record returns the command record.
func record() command {
	return command{
		name:  "record",
		args:  "-o FILE [-http ADDRESS] [-header H] " + authArgs + " SERVER [ARG...]",
		plain: true, // flags after SERVER belong to the server's command
		short: "record the messages between clients and a server",
		help: `
Forwards messages between clients and a server and records them. SERVER is a URL, or a command with its
arguments in one word or several. A client uses this command in place of the server: over standard
input and output, or over HTTP with -http. The server's command gets the environment of this process.
With -http, it is started again for each session, and clients must use a revision with sessions.

If client and server use the same transport, record changes nothing: no byte of standard input and
output, and no HTTP header, status or stream. Otherwise it forwards the messages unchanged over the
other transport. If the server fails, record fails.

record appends one JSON object per message to FILE: the time, the session, the sender ("client" or
"server"), the method, the Go type of the params or the result, and the message itself. Text that is
not a valid message is recorded with the error. FILE contains all messages, including secrets, and only
you can read it: its mode is set to 0600. Headers, the arguments of the command, and the user and
query of the URL are not recorded.

Over HTTP, web pages of other sites cannot use the recorder. Headers given by -header are only added to
requests to the path of the URL.

With -login, -token or a stored login, record sends your token to the URL. Its clients then need no
authorization, and act on your behalf. Otherwise, clients over HTTP receive the server's challenge.
-login opens your browser and prints the address to standard error.

To list or draw the messages, run "mcpwire trace".

Examples:

  mcpwire call 'mcpwire record -o talk.ndjson mcpwire serve' add a=1 b=2
  mcpwire record -o talk.ndjson -http :9000 https://example.com/mcp
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			file := flags.String("o", "", "write to `FILE`")
			address := flags.String("http", "", "serve clients over HTTP at `ADDRESS`; without a host, only clients on this machine can connect")
			var headers values
			flags.Var(&headers, "header", "send the header `\"Name: value\"` to the URL; may be repeated")
			a := new(access)
			a.declare(flags)
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case *file == "":
					return usagef("missing -o")
				case len(args) == 0:
					return usagef("missing SERVER")
				}
				server, err := recordedServer(args, headers)
				if err != nil {
					return err
				}
				switch {
				case server.URL == "" && a.used() != "":
					return usagef("%s is for servers at a URL", a.used())
				case server.URL != "":
					server.Auth, err = a.authorizer(loopback.New(&loopback.Options{Print: s.err}), server.URL, server.Header)
					if stored, ok := server.Auth.(*oauth.Authorizer); ok && !a.login {
						if _, err = stored.Token(ctx, server.URL); errors.Is(err, oauth.ErrLoginNeeded) {
							server.Auth, err = nil, nil // the clients may log in themselves
						}
					}
					if err != nil {
						return err
					}
				}
				server.Stderr = s.err
				f, err := openPrivate(*file)
				if err != nil {
					return err
				}
				log := trace.NewLog(f)
				err = recordTo(ctx, s, log, server, *address)
				if failed := log.Err(); failed != nil {
					err = errors.Join(err, fmt.Errorf("the recording is incomplete: %w", failed))
				}
				return errors.Join(err, f.Close())
			}
		},
	}
}

// openPrivate opens a file for appending, and creates it if needed. It sets the mode of a regular
// file to 0600, even if the file existed before.
func openPrivate(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o600 {
		err = f.Chmod(0o600)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// recordedServer returns the server named by the arguments.
func recordedServer(args []string, headers values) (server recorder.Server, err error) {
	server.Header, err = headers.header()
	if err != nil {
		return server, err
	}
	server.Command = args
	if len(args) == 1 {
		server.URL, server.Command, err = serverOf(args[0])
	} else if isURL(args[0]) {
		err = usagef("unexpected argument %q after the URL", args[1])
	}
	return server, err
}

// recordTo records the session of a client on standard input and output, or of all clients over
// HTTP. An error of the recording does not affect the sessions.
func recordTo(ctx context.Context, s streams, log *trace.Log, server recorder.Server, address string) error {
	switch {
	case address == "" && server.URL == "":
		return recorder.Pipe(ctx, log, server, s.in, s.out)
	case address == "":
		return recorder.Forward(ctx, log, server, stdio.Server(stdio.Options{}))
	}
	handler, err := recorder.Web(log, server)
	if err != nil {
		return err
	}
	listener, err := listen(address)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(s.out, "recording at http://%s%s\n", listener.Addr(), handler.Path())
	return serveWeb(ctx, web, listener, handler.Shutdown)
}
