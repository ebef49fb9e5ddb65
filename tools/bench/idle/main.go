// Command idle measures what an idle session over HTTP with its standing stream holds in memory, beside the other
// SDKs:
//
//	go run ./idle -sessions 2000
//
// Servers and clients are measured apart, each in a process of its own, so that what one side holds is not counted for
// the other. The sessions of a server are opened by a client that is the same for all of them, in another process: it
// says hello, opens the stream, and keeps no other connection. The clients are connected with a server that is the same
// for all of them, which looks at nothing, and share a pool of connections. Memory is what is in use after a garbage
// collection, the stacks of goroutines included, divided by the number of sessions.
//
// What package net/http costs by itself, with a handler that holds a stream and a client that reads one, is in each
// of the figures, and is measured too; in brackets is what an SDK has beyond that.
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

// What makes the program a server, or a process with clients of the server at a URL.
const (
	serveFlag = "-serve"
	holdFlag  = "-hold"
)

func run(ctx context.Context, args []string, out io.Writer) error {
	if child(args) {
		return obey(ctx, args, os.Stdin, out)
	}
	flags := flag.NewFlagSet("idle", flag.ContinueOnError)
	sessions := flags.Int("sessions", 2000, "how many sessions there are at once")
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

// usage is what a process holds.
type usage struct{ bytes, stacks, goroutines float64 }

// per is what each of so many things holds that came since u.
func (u usage) per(after usage, count int) usage {
	n := float64(count)
	return usage{(after.bytes - u.bytes) / n, (after.stacks - u.stacks) / n, (after.goroutines - u.goroutines) / n}
}

// beyond says what u is, and what of it is not in floor.
func (u usage) beyond(floor usage) string {
	return fmt.Sprintf("%5.1f kB, stacks %4.1f, in %3.1f goroutines (%+5.1f kB)", u.bytes/1000, u.stacks/1000, u.goroutines, (u.bytes-floor.bytes)/1000)
}

// used returns what this process holds.
func used() usage {
	for range 3 { // pools and finalizers hold on to what the first one finds
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{float64(m.HeapAlloc + m.StackInuse), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}

// measureServer returns what a session is to a server.
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
	clients := &raw{server: u}
	defer clients.close()
	return measure(server, count, clients.open)
}

// measureClient returns what a session is to a client.
func measureClient(ctx context.Context, c contestant, count int) (usage, error) {
	server, err := start(ctx, serveFlag, plain)
	if err != nil {
		return usage{}, err
	}
	defer server.stop()
	clients, err := start(ctx, holdFlag, c.name, server.line)
	if err != nil {
		return usage{}, err
	}
	defer clients.stop()
	return measure(clients, count, clients.open)
}

// measure returns what each of so many sessions is to a process. What the first one brings is not counted for it.
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

// process is a child process. It does what it is told by lines, and answers each of them with one.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	line string // the first that it has printed: the URL of a server
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

// tell has the process do something, and returns what it answers.
func (p *process) tell(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return "", err
	}
	return p.read()
}

func (p *process) used() (u usage, err error) {
	answer, err := p.tell("used")
	if err == nil {
		_, err = fmt.Sscan(answer, &u.bytes, &u.stacks, &u.goroutines)
	}
	return u, err
}

func (p *process) open(count int) error {
	answer, err := p.tell("open %d", count)
	if err == nil && answer != "open" {
		err = errors.New(answer)
	}
	return err
}

// stop ends the process.
func (p *process) stop() {
	p.cmd.Process.Kill() // a server would wait for its streams
	p.cmd.Wait()
}

// obey is a child process: it serves, or holds clients, and does what the lines of in say, until there are no more.
func obey(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	c, err := find(args[1])
	if err != nil {
		return err
	}
	pool := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2}} // as many as by default
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
