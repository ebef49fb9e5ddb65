package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// record is the command record.
func record() command {
	return command{
		name:  "record",
		args:  "-o FILE COMMAND [ARG...]",
		short: "stand between a client and a server and record what they say",
		help: `
Starts a server and passes on what comes on standard input to it, and what it writes to standard
output, without a change to any byte. Give it to a client in place of the server. The server gets
the environment of this process. The command fails if the server does.

FILE gets an object on a line of its own for each message, behind what is in it already: the time,
who sent it ("client" or "server"), the method, the Go type of the params or the result, and the
message as it was. Lines that are no messages are recorded with what is wrong with them. What the
messages hold, secrets too, is then in the file, which nobody else may read.

Draw the file with "mcpwire trace".

Example:

  mcpwire call 'mcpwire record -o talk.ndjson mcpwire serve' add a=1 b=2
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			file := flags.String("o", "", "write to this `file`")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case *file == "":
					return usagef("-o is missing")
				case len(args) == 0:
					return usagef("no command of a server")
				}
				f, err := os.OpenFile(*file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err != nil {
					return err
				}
				return errors.Join(proxy(ctx, s, trace.NewLog(f), args), f.Close())
			}
		},
	}
}

// stopTimeout is how long a server that was asked to terminate may take, and how long one that has ended may be
// outlived by its output.
const stopTimeout = 5 * time.Second

// proxy runs a server and records what goes to and fro, until the server ends. A fault of the recording does not
// disturb the conversation; it is reported behind it.
func proxy(ctx context.Context, s streams, log *trace.Log, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM) // which is meant for the server
	defer stop()
	server := exec.CommandContext(ctx, args[0], args[1:]...)
	server.Stderr = s.err
	server.WaitDelay = stopTimeout
	server.Cancel = func() error {
		if server.Process.Signal(syscall.SIGTERM) != nil { // no such thing on this system
			return server.Process.Kill()
		}
		return nil
	}
	toClient := log.Tap(mcp.FromServer, s.out)
	server.Stdout = toClient
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	log.Event("start: " + strings.Join(args, " ")) // in front of what the server says first
	if err := server.Start(); err != nil {
		log.Event("not started: " + err.Error())
		return err
	}
	go func() { // ends with the input, or with the first that comes once the server is gone
		toServer := log.Tap(mcp.FromClient, in)
		io.Copy(toServer, s.in) // a server that takes no more is about to end
		toServer.End()
		in.Close()
	}()
	ended := server.Wait()
	toClient.End()
	log.Event("ended: " + server.ProcessState.String())
	if err := log.Err(); err != nil {
		return errors.Join(ended, fmt.Errorf("the recording is not complete: %w", err))
	}
	return ended
}
