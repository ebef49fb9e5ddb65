// Command idle compares the memory of an idle session over HTTP, with its GET stream, with that of
// other SDKs:
//
//	go run ./idle -sessions 2000
//
// Servers and clients are measured separately, each in its own process, so that the memory of one
// side is not counted for the other. The same client in another process opens the sessions of all
// servers: it performs the handshake, opens the stream, and keeps no other connection. All clients
// connect to the same server, which decodes little, and share a pool of connections. Memory is the
// memory in use after a garbage collection, including stacks of goroutines, divided by the number
// of sessions.
//
// The contestant "listen" holds the stream of a subscription of revision 2026-07-28 instead of a
// session.
//
// All figures include the cost of package net/http, with a handler that holds a stream and a client
// that reads one. That cost is also measured. The figures in parentheses exclude it.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "idle:", err)
		os.Exit(1)
	}
}

// The flags that make the program a server, or a process with clients of the server at a URL.
const (
	serveFlag = "-serve"
	holdFlag  = "-hold"
)

func run(ctx context.Context, args []string, out io.Writer) error {
	if child(args) {
		return runChild(ctx, args, os.Stdin, out)
	}
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	sessions := flags.Int("sessions", 2000, "hold this `NUMBER` of sessions")
	if err := flags.Parse(args); err != nil {
		return err
	}
	list := contestants()
	servers, clients := make([]usage, len(list)), make([]usage, len(list))
	for i, c := range list {
		var err error
		if servers[i], err = measureServer(ctx, c, *sessions); err != nil {
			return fmt.Errorf("%s, server: %w", c.name, err)
		}
		if clients[i], err = measureClient(ctx, c, *sessions); err != nil {
			return fmt.Errorf("%s, client: %w", c.name, err)
		}
	}
	last := len(list) - 1 // net/http alone
	for i, c := range list {
		fmt.Fprintf(out, "%-16s server %s  client %s\n", c.name, servers[i].beyond(servers[last]), clients[i].beyond(clients[last]))
	}
	return nil
}

// child reports whether the arguments are those of a child process.
func child(args []string) bool {
	return len(args) == 2 && args[0] == serveFlag || len(args) == 3 && args[0] == holdFlag
}

// usage is the resource usage of a process.
type usage struct{ bytes, stacks, goroutines float64 }

// per returns the increase since u, divided by n.
func (u usage) per(after usage, count int) usage {
	n := float64(count)
	return usage{(after.bytes - u.bytes) / n, (after.stacks - u.stacks) / n, (after.goroutines - u.goroutines) / n}
}

// beyond formats u and, in parentheses, its excess over floor.
func (u usage) beyond(floor usage) string {
	return fmt.Sprintf("%5.1f kB, stacks %4.1f, in %3.1f goroutines (%+5.1f kB)", u.bytes/1000, u.stacks/1000, u.goroutines, (u.bytes-floor.bytes)/1000)
}

// used returns the resource usage of this process.
func used() usage {
	for range 3 { // pools and finalizers keep memory during the first collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{float64(m.HeapAlloc + m.StackInuse), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}

// measureServer returns the usage per session of a server.
func measureServer(ctx context.Context, c contestant, count int) (usage, error) {
	server, err := start(ctx, serveFlag, c.name)
	if err != nil {
		return usage{}, err
	}
	defer server.stop()
	u, err := url.Parse(server.line)
	if err != nil {
		return usage{}, err
	}
	clients := &raw{server: u, modern: c.modern}
	defer clients.close()
	return measure(server, count, clients.open)
}

// measureClient returns the usage per session of a client.
func measureClient(ctx context.Context, c contestant, count int) (usage, error) {
	server, err := start(ctx, serveFlag, plain)
	if err != nil {
		return usage{}, err
	}
	defer server.stop()
	at := server.line
	if c.modern {
		at += modernPath
	}
	clients, err := start(ctx, holdFlag, c.name, at)
	if err != nil {
		return usage{}, err
	}
	defer clients.stop()
	return measure(clients, count, clients.open)
}

// measure returns the usage per session of a process. It excludes costs that only the first session
// has.
func measure(p *process, count int, open func(count int) error) (usage, error) {
	if err := open(1); err != nil {
		return usage{}, err
	}
	before, err := p.used()
	if err != nil {
		return usage{}, err
	}
	if err := open(count); err != nil {
		return usage{}, err
	}
	after, err := p.used()
	return before.per(after, count), err
}

// process is a child process. It reads commands as lines and responds to each with a line.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	line string // the first line of its output: the URL of a server
}

func start(ctx context.Context, args ...string) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, path, args...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.line, err = p.read(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) read() (string, error) {
	line, err := p.out.ReadString('\n')
	return strings.TrimSpace(line), err
}

// command sends a command to the process and returns its response.
func (p *process) command(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return "", err
	}
	return p.read()
}

func (p *process) used() (u usage, err error) {
	answer, err := p.command("used")
	if err == nil {
		_, err = fmt.Sscan(answer, &u.bytes, &u.stacks, &u.goroutines)
	}
	return u, err
}

func (p *process) open(count int) error {
	answer, err := p.command("open %d", count)
	if err == nil && answer != "open" {
		err = errors.New(answer)
	}
	return err
}

// stop ends the process.
func (p *process) stop() {
	p.cmd.Process.Kill() // a server would wait for the end of its streams
	p.cmd.Wait()
}

// runChild runs a child process: a server, or a process with clients. It executes the commands in
// in until in ends.
func runChild(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	c, err := find(args[1])
	if err != nil {
		return err
	}
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}} // the default
	var hold []any
	switch args[0] {
	case serveFlag:
		fmt.Fprintln(out, httptest.NewServer(c.handler()).URL)
	case holdFlag:
		fmt.Fprintln(out, "ready")
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var count int
		if lines.Text() == "used" {
			u := used()
			fmt.Fprintln(out, u.bytes, u.stacks, u.goroutines)
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "open %d", &count); err != nil {
			return err
		}
		answer := "open"
		for range count {
			client, err := c.connect(ctx, args[2], pool)
			if err != nil {
				answer = err.Error()
				break
			}
			hold = append(hold, client)
		}
		fmt.Fprintln(out, answer)
	}
	runtime.KeepAlive(hold)
	return nil
}
