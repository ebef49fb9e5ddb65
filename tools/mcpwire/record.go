package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/recorder"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// record is the command record.
func record() command {
	return command{
		name:  "record",
		args:  "-o FILE [-http ADDRESS] [-header H] SERVER [ARG...]",
		plain: true, // flags behind the command are its own
		short: "stand between clients and a server and record what they say",
		help: `
Passes on what a client and a server say, and records it. SERVER is a URL, or a command with its
arguments, in one word or several. A client talks to this command as it would to the server: over
standard input and output, or over HTTP with -http. A command gets the environment of this process,
and is started again for each session of a client over HTTP.

Where both sides are of a kind, nothing is changed on the way: no byte of standard input and output,
and nothing of HTTP requests and answers, their headers, statuses and streams. Else the messages go
on as they are. The recorder fails if the server does.

FILE gets an object on a line of its own for each message, behind what is in it already: the time,
the session, who sent it ("client" or "server"), the method, the Go type of the params or the
result, and the message as it was. What is no message is recorded with what is wrong with it. The
file holds the content of messages, secrets included. Only you can read it: its mode is set to 0600.
Headers, the arguments of the command, and the user and query of the URL are not recorded.

Over HTTP, web pages of other sites cannot use the recorder. The fields of -header are added only to
requests to the path of the URL.

Draw the file with "mcpwire trace".

Examples:

  mcpwire call 'mcpwire record -o talk.ndjson mcpwire serve' add a=1 b=2
  mcpwire record -o talk.ndjson -http :9000 https://example.com/mcp
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			file := flags.String("o", "", "write to this `file`")
			address := flags.String("http", "", "listen for clients over HTTP at this `address`; without a host it is this machine alone")
			var headers values
			flags.Var(&headers, "header", "send this `\"Name: value\"` to the URL; may be repeated")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case *file == "":
					return usagef("-o is missing")
				case len(args) == 0:
					return usagef("SERVER is missing")
				}
				server, err := recordedServer(args, headers)
				if err != nil {
					return err
				}
				server.Stderr = s.err
				f, err := openPrivate(*file)
				if err != nil {
					return err
				}
				log := trace.NewLog(f)
				err = recordTo(ctx, s, log, server, *address)
				if failed := log.Err(); failed != nil {
					err = errors.Join(err, fmt.Errorf("the recording is not complete: %w", failed))
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

// recordedServer returns the server that the arguments name.
func recordedServer(args []string, headers values) (server recorder.Server, err error) {
	server.Header, err = headers.header()
	if err != nil {
		return server, err
	}
	server.Command = args
	if len(args) == 1 {
		server.URL, server.Command, err = serverOf(args[0])
	} else if isURL(args[0]) {
		err = usagef("unexpected argument %q behind the URL", args[1])
	}
	return server, err
}

// recordTo records the conversations of a client on standard input and output, or of those that come over HTTP. A fault
// of the recording does not disturb them.
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
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintf(s.out, "recording at http://%s%s\n", listener.Addr(), handler.Path())
	return serveWeb(ctx, web, listener, handler.Shutdown)
}
