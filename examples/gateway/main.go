// Command gateway stands between a client, on standard input and output, and a server that it starts. Links in the
// results of tools that begin with one prefix get another. All else goes on as it came.
//
//	go run ./examples/gateway -from http://build.internal/ -to https://files.example.com/ build-server
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	var g gateway
	flag.StringVar(&g.from, "from", "http://localhost/", "the prefix of the links to edit")
	flag.StringVar(&g.to, "to", "https://localhost/", "what they get in its place")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: gateway [-from PREFIX] [-to PREFIX] SERVER [ARGUMENT…]")
	}
	server, err := stdio.Start(stdio.Command{Path: flag.Arg(0), Args: flag.Args()[1:], Env: os.Environ(), Stderr: os.Stderr})
	if err == nil {
		err = g.run(context.Background(), stdio.Server(stdio.Options{}), server)
	}
	if err != nil {
		log.Fatal(err)
	}
}

type gateway struct {
	from, to string

	mu   sync.Mutex // guards talk
	talk mcp.Conversation
}

// run forwards both ways until one end is over, and closes both. A client that closes its output may still wait for
// answers: the server is told that nothing comes any more, and ends when it has given them.
func (g *gateway) run(ctx context.Context, client transport.Conn, server transport.HalfCloser) error {
	over := make(chan error, 1)
	go func() { // ends when the client does, or is closed below
		err := g.forward(ctx, mcp.FromClient, client, server)
		if err == io.EOF {
			err = nil
			server.CloseWrite() // fails once the server is closed, below
		} else {
			server.Close() // which ends the other direction, too
		}
		over <- err
	}()
	err := g.forward(ctx, mcp.FromServer, server, client)
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, server.Close(), client.Close(), <-over)
}

// forward takes messages from one end to the other until the first is over, or sends nothing any more, which is
// [io.EOF].
func (g *gateway) forward(ctx context.Context, side mcp.Direction, from, to transport.Conn) error {
	for {
		m, err := from.Read()
		if err == nil {
			err = to.Write(ctx, transport.Message{Text: g.pass(side, m.Text)})
		}
		if refused, ok := errors.AsType[*transport.MessageError](err); ok {
			log.Print(refused)
		} else if errors.Is(err, transport.ErrClosed) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// pass returns a message as it goes on. What cannot be read is left to its receiver to judge.
func (g *gateway) pass(side mcp.Direction, text []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	typed, err := g.talk.DecodeFrom(side, text)
	result, ok := typed.Payload.(*mcp.CallToolResult)
	if err != nil || !ok {
		return text
	}
	edited := false
	for _, block := range result.Content {
		if link, ok := block.(*mcp.ResourceLink); ok && strings.HasPrefix(link.URI, g.from) {
			link.URI, edited = g.to+strings.TrimPrefix(link.URI, g.from), true
		}
	}
	if out, err := typed.Message.AppendJSON(nil); edited && err == nil {
		return out
	}
	return text
}
