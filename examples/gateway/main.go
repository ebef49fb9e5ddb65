// Command gateway forwards messages between a client, on standard input and output, and a server
// that it starts. It replaces the prefix of links in tool results. It forwards everything else
// unchanged.
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
	flag.StringVar(&g.from, "from", "http://localhost/", "replace this `PREFIX` of links")
	flag.StringVar(&g.to, "to", "https://localhost/", "use this `PREFIX` instead")
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

// run forwards in both directions until one connection ends, and then closes both. A client that
// closes its output may still wait for responses: run closes the server's input, and the server
// ends after it has sent them.
func (g *gateway) run(ctx context.Context, client transport.Conn, server transport.HalfCloser) error {
	clientDone := make(chan error, 1)
	go func() { // ends when the client ends or is closed below
		err := g.forward(ctx, mcp.FromClient, client, server)
		if err == io.EOF {
			err = nil
			server.CloseWrite() // fails once the server is closed, below
		} else {
			server.Close() // ends the other direction, too
		}
		clientDone <- err
	}()
	err := g.forward(ctx, mcp.FromServer, server, client)
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, server.Close(), client.Close(), <-clientDone)
}

// forward copies messages from one connection to the other. It returns [io.EOF] if the first one
// closes its output, and otherwise the error of the connection.
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

// pass returns the message to forward. It does not change invalid messages; their receiver reports
// them.
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
