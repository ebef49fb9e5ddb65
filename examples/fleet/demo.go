package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/mcpwire/mcpwire/runtime/client"
)

// Figures of the demo.
const (
	workers = 3
	items   = 5                     // items of an order
	pace    = 50 * time.Millisecond // between two orders
	lease   = 2 * time.Second
)

// demo packs orders in a fleet while it kills the workers. It prints a summary to out, and returns
// an SVG drawing of the lives of the workers and of the orders.
func demo(ctx context.Context, out io.Writer, orders int) (drawing []byte, err error) {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	url, stop, err := startNATS(dir)
	if err != nil {
		return nil, err
	}
	defer stop()
	fmt.Fprintf(out, "started a NATS server, %d workers and a front end\n", workers)

	// The front end runs no tasks.
	nc, err := connect(url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	front := &options{name: "front end", tools: "none", lease: lease}
	s, store, err := front.start(ctx, nc)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return nil, err
	}
	log.SetOutput(io.Discard)
	serving, end := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- front.serve(serving, s, listener, nc) }() // ends with end
	defer func() { end(); <-served }()

	killing, spare := context.WithCancel(ctx)
	killed := make(chan []life, 1)
	go func() { killed <- keepKilling(killing, url) }() // ends with spare
	defer spare()

	c, err := client.Dial(ctx, "http://"+listener.Addr().String()+"/mcp", nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	start := time.Now()
	results := make([]parcel, orders)
	errs := make([]error, orders)
	var group sync.WaitGroup
	for i := range orders {
		group.Go(func() { results[i], errs[i] = call(ctx, c, i) })
		time.Sleep(pace)
	}
	group.Wait()
	took := time.Since(start)
	spare()
	lives := <-killed

	complete, shared := 0, 0
	for i, p := range results {
		if errs[i] != nil {
			fmt.Fprintf(out, "order %d: %v\n", i+1, errs[i])
			continue
		}
		complete++
		if processes(p) > 1 {
			shared++
		}
	}
	kills := 0
	for _, l := range lives {
		if l.killed {
			kills++
		}
	}
	fmt.Fprintf(out, "killed %d workers in %.0f s\n", kills, took.Seconds())
	fmt.Fprintf(out, "%d orders were begun by one worker and finished by another\n", shared)
	fmt.Fprintf(out, "%d of %d orders are packed\n", complete, orders)
	drawing = draw(start, lives, results)
	if complete < orders {
		return drawing, fmt.Errorf("%d orders failed", orders-complete)
	}
	return drawing, nil
}

// call packs one order and checks the result.
func call(ctx context.Context, c *client.Client, number int) (p parcel, err error) {
	var in order
	for i := range items {
		in.Items = append(in.Items, fmt.Sprintf("item %d of order %d", i+1, number+1))
	}
	result, err := c.CallTool(ctx, "pack", in)
	if err != nil {
		return p, err
	}
	if p, err = client.Output[parcel](result); err != nil {
		return p, err
	}
	if len(p.Packed) != items {
		return p, fmt.Errorf("%d items are packed", len(p.Packed))
	}
	for i, done := range p.Packed {
		if done.Item != in.Items[i] {
			return p, fmt.Errorf("the parcel has %q in place of %q", done.Item, in.Items[i])
		}
	}
	return p, nil
}

// processes returns the number of processes that have packed items of a parcel.
func processes(p parcel) int {
	names := map[string]bool{}
	for _, done := range p.Packed {
		names[done.By] = true
	}
	return len(names)
}

// startNATS starts a NATS server that stores its streams in dir.
func startNATS(dir string) (url string, stop func(), err error) {
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return "", nil, err
	}
	s.Start()
	stop = func() { s.Shutdown(); s.WaitForShutdown() }
	if !s.ReadyForConnections(10 * time.Second) {
		stop()
		return "", nil, fmt.Errorf("the NATS server is not ready")
	}
	return s.ClientURL(), stop, nil
}

// life is the life of one worker.
type life struct {
	name       string
	begin, end time.Time
	killed     bool // before the end of the demo
}

// keepKilling runs workers until ctx ends. Each second, it kills one worker without a warning and
// starts another one. It returns the lives of all workers; the last ones end with ctx.
func keepKilling(ctx context.Context, url string) (lives []life) {
	running := map[int]*exec.Cmd{} // by index in lives
	begin := func() {
		name := fmt.Sprint("worker ", len(lives)+1)
		worker := exec.Command(os.Args[0], "-nats", url, "-name", name, "-lease", lease.String())
		worker.Env = append(os.Environ(), "FLEET_WORKER=1")
		worker.Stderr = os.Stderr
		if err := worker.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		running[len(lives)] = worker
		lives = append(lives, life{name: name, begin: time.Now()})
	}
	kill := func(i int) {
		running[i].Process.Kill()
		running[i].Wait()
		lives[i].end = time.Now()
		delete(running, i)
	}
	for range workers {
		begin()
	}
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			for i := range running { // in random order
				kill(i)
				lives[i].killed = true
				break
			}
			begin()
		case <-ctx.Done():
			for i := range running {
				kill(i)
			}
			return lives
		}
	}
}
