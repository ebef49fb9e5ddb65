// Command host keeps connections to all servers in a file and offers their tools as one list. It
// connects again when a server ends or cannot be reached.
//
// The file has a JSON object whose members are named after servers. Each has a "url", or a "command"
// with its arguments. The host prints the tools, and then calls one for each line of its standard
// input: the name of the server, a slash, the name of the tool, a space, and the arguments as JSON.
//
//	go run ./examples/host servers.json
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		log.Fatal("usage: host FILE")
	}
	text, err := os.ReadFile(os.Args[1])
	var servers map[string]server
	if err == nil {
		err = json.Unmarshal(text, &servers)
	}
	if err != nil {
		log.Fatal(err)
	}
	for name, s := range servers {
		if s.URL == "" && len(s.Command) == 0 {
			log.Fatalf("server %q: want either a url or a command", name)
		}
	}
	h := start(ctx, servers, time.Second)
	h.ready.Wait()
	for _, name := range h.tools(ctx) {
		fmt.Println(name)
	}
	served := make(chan error, 1)
	go func() { served <- h.serve(ctx, os.Stdin, os.Stdout) }() // ends with the input
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	stop()
	h.done.Wait()
	if err != nil {
		log.Fatal(err)
	}
}

// server is the address of a server.
type server struct {
	URL     string
	Command []string
}

func (s server) connect(ctx context.Context) (*client.Client, error) {
	o := &client.Options{
		Info:    mcp.Implementation{Name: "host", Version: "1"},
		Session: session.Options{Timeouts: session.Timeouts{KeepAlive: 30 * time.Second}},
	}
	if s.URL != "" {
		return client.Dial(ctx, s.URL, o) // opens another session if the server restarts
	}
	return client.Command(ctx, stdio.Command{Path: s.Command[0], Args: s.Command[1:]}, o)
}

// host keeps a client for each server.
type host struct {
	delay time.Duration  // before connecting again
	ready sync.WaitGroup // until the host has tried to connect to each server
	done  sync.WaitGroup

	mu      sync.Mutex
	clients map[string]*client.Client // the connected ones, by the name of the server
}

// start connects to the servers until ctx ends.
func start(ctx context.Context, servers map[string]server, delay time.Duration) *host {
	h := &host{delay: delay, clients: map[string]*client.Client{}}
	for name, s := range servers {
		h.ready.Add(1)
		h.done.Go(func() { h.keep(ctx, name, s, sync.OnceFunc(h.ready.Done)) }) // ends with ctx
	}
	return h
}

// keep connects to a server, and connects again when the connection ends, until ctx ends.
func (h *host) keep(ctx context.Context, name string, s server, tried func()) {
	for ctx.Err() == nil {
		c, err := s.connect(ctx)
		if err == nil {
			h.set(name, c)
			tried()
			stop := context.AfterFunc(ctx, func() { c.Close() })
			err = c.Wait()
			stop()
			h.set(name, nil)
		}
		tried()
		if ctx.Err() == nil {
			slog.Info("server disconnected", "server", name, "error", err)
		}
		select {
		case <-time.After(h.delay):
		case <-ctx.Done():
		}
	}
}

func (h *host) set(name string, c *client.Client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients[name] = c; c == nil {
		delete(h.clients, name)
	}
}

// tools returns the names of all tools, with the names of their servers. Clients cache the lists
// until servers report changes.
func (h *host) tools(ctx context.Context) (names []string) {
	h.mu.Lock()
	clients := make(map[string]*client.Client, len(h.clients))
	for name, c := range h.clients {
		clients[name] = c
	}
	h.mu.Unlock()
	for name, c := range clients {
		for tool, err := range c.Tools(ctx) {
			if err != nil {
				slog.Warn("tools not listed", "server", name, "error", err)
				break
			}
			names = append(names, name+"/"+tool.Name)
		}
	}
	slices.Sort(names)
	return names
}

// call calls a tool by its name in tools.
func (h *host) call(ctx context.Context, name string, arguments any) (string, error) {
	name, tool, _ := strings.Cut(name, "/")
	h.mu.Lock()
	c := h.clients[name]
	h.mu.Unlock()
	if c == nil {
		return "", fmt.Errorf("server %q is not connected", name)
	}
	result, err := c.CallTool(ctx, tool, arguments)
	if err != nil {
		return "", err
	}
	return client.Text(result)
}

// serve calls a tool for each line, of any length, until the input or ctx ends.
func (h *host) serve(ctx context.Context, in io.Reader, out io.Writer) error {
	for lines := bufio.NewReader(in); ctx.Err() == nil; {
		line, err := lines.ReadString('\n')
		if line = strings.TrimSpace(line); line == "" && err == io.EOF {
			return nil
		}
		if err != nil && err != io.EOF {
			return err
		}
		if line == "" {
			continue
		}
		name, arguments, _ := strings.Cut(line, " ")
		if arguments == "" {
			arguments = "{}"
		}
		text, err := h.call(ctx, name, json.RawMessage(arguments))
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Fprintln(out, text)
	}
	return nil
}
