// Command fleet measures durable tasks of a fleet of processes on NATS JetStream:
//
//	go run ./fleet
//	go run ./fleet -processes 4 -nodes 3 -callers 64 -profile DIR
//
// Clients in this process call a durable tool over HTTP on the loopback address, in revision
// 2026-07-28. Each call is a task from its beginning. The steps of the tool return at once, and each
// is recorded. The processes of the fleet and the NATS servers are child processes, so that the
// processor time of each side is known. Each caller calls one process after the other.
//
// Three contestants take turns: the fleet; a single process with a bolt store; and the floor. For
// each task, the floor publishes as many messages of the same average size as the fleet, with the
// NATS client alone, from the same number of processes and callers. It publishes a message once the
// message before is acknowledged. The fleet writes the first two messages of a task concurrently.
//
// The table has medians over the turns: tasks and steps per second; the duration of calls in
// milliseconds; the processor time per task in microseconds, of the processes of the fleet, of the
// servers and of the clients; the messages per task that the servers store; and the messages per
// task that the processes send, including requests to read. The last columns are the tasks per
// second of bolt and of the floor. In parentheses is the rate of the fleet divided by theirs, in
// neighbouring turns.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

// bench is a measurement.
type bench struct {
	steps, rounds int
	turn          time.Duration
	inside        bool
	profile       string // folder; "" for none
	bolt          *fleet
	out           io.Writer
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) == 2 && args[0] == childFlag {
		return child(ctx, args[1], in, out)
	}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	b := &bench{out: out}
	processes := flags.String("processes", "1,2,4", "measure these `NUMBERS` of processes")
	clusters := flags.String("nodes", "1,3", "measure these `NUMBERS` of NATS servers")
	callers := flags.String("callers", "1,64", "measure these `NUMBERS` of callers")
	flags.IntVar(&b.steps, "steps", 5, "let a task have this `NUMBER` of steps")
	flags.IntVar(&b.rounds, "rounds", 3, "give each contestant this `NUMBER` of turns")
	flags.DurationVar(&b.turn, "time", 2*time.Second, "let a turn of the fleet take this `TIME`, and the others half of it")
	flags.BoolVar(&b.inside, "inside", false, "run the NATS servers in the process of the clients")
	flags.StringVar(&b.profile, "profile", "", "write a processor profile of each process during the last turn to `DIR`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var lists [3][]int
	for i, text := range []string{*clusters, *processes, *callers} {
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a list of numbers such as 1,2,4", text)
			}
			lists[i] = append(lists[i], n)
		}
	}

	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if b.bolt, err = startFleet(ctx, 1, role{Store: "bolt", Dir: dir}); err != nil {
		return fmt.Errorf("bolt: %w", err)
	}
	defer b.bolt.stop()
	fmt.Fprintf(out, "| servers | processes | callers | tasks/s | steps/s | p50 ms | p99 ms | processes, µs/task | servers, µs/task | clients, µs/task | messages stored per task | messages sent per task | bolt, tasks/s (ratio) | floor, tasks/s (ratio) |\n"+
		"| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, n := range lists[0] {
		if err := b.cluster(ctx, n, lists[1], lists[2]); err != nil {
			return fmt.Errorf("%d servers: %w", n, err)
		}
	}
	return nil
}

// cluster measures fleets that use one cluster.
func (b *bench) cluster(ctx context.Context, n int, processes, callers []int) error {
	c, err := startNodes(ctx, n, b.inside)
	if err != nil {
		return err
	}
	defer c.stop()
	for _, members := range processes {
		f, err := startFleet(ctx, members, role{Store: fmt.Sprint("tasks-", members), URLs: c.urls, Replicas: n})
		if err != nil {
			return err
		}
		f.nodes = c
		for _, n := range callers {
			if err = b.measure(ctx, f, n); err != nil {
				break
			}
		}
		f.stop()
		if err != nil {
			return fmt.Errorf("%d processes: %w", members, err)
		}
	}
	return nil
}

// fleet is a running fleet with clients.
type fleet struct {
	nodes   *nodes // nil with bolt
	store   string
	members []*process
	clients []*client.Client
	pool    *http.Client
}

func startFleet(ctx context.Context, members int, r role) (_ *fleet, err error) {
	f := &fleet{store: r.Store, pool: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	for range members {
		p, err := start(ctx, r)
		if err != nil {
			return nil, err
		}
		f.members = append(f.members, p)
		c, err := client.Dial(ctx, p.URL, &client.Options{HTTP: streamable.ClientOptions{Options: httpclient.Options{HTTP: f.pool}}})
		if err != nil {
			return nil, err
		}
		f.clients = append(f.clients, c)
	}
	return f, nil
}

func (f *fleet) stop() {
	for _, c := range f.clients {
		c.Close()
	}
	for _, p := range f.members {
		p.stop()
	}
	f.pool.CloseIdleConnections()
}

// usage holds the processor time that each side has used so far, and the messages sent and stored.
type usage struct {
	members, nodes, clients time.Duration
	messages, bytes, stored float64
}

func (f *fleet) used(ctx context.Context) (u usage, err error) {
	u.clients = processor.Time()
	for _, p := range f.members {
		r, err := p.do(command{})
		if err != nil {
			return u, err
		}
		u.members += r.Processor
		u.messages, u.bytes = u.messages+float64(r.Messages), u.bytes+float64(r.Bytes)
	}
	if f.nodes == nil {
		return u, nil
	}
	for _, p := range f.nodes.list {
		r, err := p.do(command{})
		if err != nil {
			return u, err
		}
		u.nodes += r.Processor
	}
	u.stored, err = f.stored(ctx)
	return u, err
}

// stored returns the number of messages that the streams of tasks have accepted.
func (f *fleet) stored(ctx context.Context) (n float64, err error) {
	nc, js, err := f.nodes.connect()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	streams := js.ListStreams(ctx, natsjs.WithStreamListSubject(f.store+".>"))
	for s := range streams.Info() {
		if s.Config.Name != f.store+"-members" {
			n += float64(s.State.LastSeq)
		}
	}
	return n, streams.Err()
}

// turn holds the measurements of one turn of a fleet, per second or per task.
type turn struct {
	rate                    float64
	took                    []time.Duration // of each call
	members, nodes, clients float64         // processor time per task in µs
	stored, messages        float64
	size                    float64 // bytes of a message
	boltRate, floorRate     float64
}

// measure prints a line of the table.
func (b *bench) measure(ctx context.Context, f *fleet, callers int) error {
	var turns []turn
	for round := range b.rounds {
		if _, err := f.take(ctx, callers, b.steps, b.turn/10); err != nil { // not measured
			return err
		}
		profiled := b.profile != "" && round == b.rounds-1
		if profiled {
			if err := f.startProfiles(b.profile); err != nil {
				return err
			}
		}
		t, err := f.take(ctx, callers, b.steps, b.turn)
		if err != nil {
			return err
		}
		if profiled {
			if err := f.endProfiles(); err != nil {
				return err
			}
		}
		alone, err := b.bolt.take(ctx, callers, b.steps, b.turn/2)
		if err != nil {
			return fmt.Errorf("bolt: %w", err)
		}
		t.boltRate = alone.rate
		if t.floorRate, err = f.floor(callers, t, b.turn/2); err != nil {
			return fmt.Errorf("floor: %w", err)
		}
		turns = append(turns, t)
	}
	of := func(value func(t turn) float64) float64 {
		var list []float64
		for _, t := range turns {
			list = append(list, value(t))
		}
		return median(list)
	}
	var took []time.Duration
	for _, t := range turns {
		took = append(took, t.took...)
	}
	slices.Sort(took)
	percentile := func(p int) float64 { return took[(len(took)-1)*p/100].Seconds() * 1000 }
	rate := of(func(t turn) float64 { return t.rate })
	fmt.Fprintf(b.out, "| %d | %d | %d | %.0f | %.0f | %.1f | %.1f | %.0f | %.0f | %.0f | %.1f | %.1f | %.0f (%.2f) | %.0f (%.2f) |\n",
		len(f.nodes.list), len(f.members), callers, rate, rate*float64(b.steps), percentile(50), percentile(99),
		of(func(t turn) float64 { return t.members }), of(func(t turn) float64 { return t.nodes }), of(func(t turn) float64 { return t.clients }),
		of(func(t turn) float64 { return t.stored }), of(func(t turn) float64 { return t.messages }),
		of(func(t turn) float64 { return t.boltRate }), of(func(t turn) float64 { return t.rate / t.boltRate }),
		of(func(t turn) float64 { return t.floorRate }), of(func(t turn) float64 { return t.rate / t.floorRate }))
	return nil
}

// take lets the callers call the tool for a time.
func (f *fleet) take(ctx context.Context, callers, steps int, length time.Duration) (t turn, err error) {
	before, err := f.used(ctx)
	if err != nil {
		return t, err
	}
	var next atomic.Int64
	var mu sync.Mutex // guards took and failed
	var failed error
	var group sync.WaitGroup
	start := time.Now()
	for range callers {
		group.Go(func() {
			var took []time.Duration
			var err error
			for err == nil && (len(took) == 0 || time.Since(start) < length) {
				begun := time.Now()
				c := f.clients[int(next.Add(1))%len(f.clients)]
				err = call(ctx, c, steps)
				took = append(took, time.Since(begun))
			}
			mu.Lock()
			defer mu.Unlock()
			t.took, failed = append(t.took, took...), cmp.Or(failed, err)
		})
	}
	group.Wait()
	if failed != nil {
		return t, failed
	}
	n := float64(len(t.took))
	t.rate = n / time.Since(start).Seconds()
	after, err := f.used(ctx)
	if err != nil {
		return t, err
	}
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / n }
	t.members, t.nodes, t.clients = per(after.members-before.members), per(after.nodes-before.nodes), per(after.clients-before.clients)
	t.stored, t.messages = (after.stored-before.stored)/n, (after.messages-before.messages)/n
	t.size = (after.bytes - before.bytes) / (after.messages - before.messages)
	return t, nil
}

// call calls the tool as a task and checks the result.
func call(ctx context.Context, c *client.Client, steps int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	h, err := c.StartTool(ctx, tool, work{steps})
	if err != nil {
		return err
	}
	result, err := h.Result(ctx)
	if err != nil {
		return err
	}
	done, err := client.Output[work](result)
	if err == nil && done.Steps != steps {
		err = fmt.Errorf("%d steps are done, want %d", done.Steps, steps)
	}
	return err
}

// floor returns how many times per second the members publish the messages of a task.
func (f *fleet) floor(callers int, t turn, length time.Duration) (float64, error) {
	start := time.Now()
	done, failed := make([]int, len(f.members)), make([]error, len(f.members))
	var group sync.WaitGroup
	for i, p := range f.members {
		// Each member has its share of the callers.
		share := callers*(i+1)/len(f.members) - callers*i/len(f.members)
		group.Go(func() {
			r, err := p.do(command{Floor: &floor{Callers: share, Messages: int(t.stored + 0.5), Bytes: int(t.size), Time: length}})
			done[i], failed[i] = r.Done, err
		})
	}
	group.Wait()
	took, sum := time.Since(start), 0
	for i := range done {
		if failed[i] != nil {
			return 0, failed[i]
		}
		sum += done[i]
	}
	return float64(sum) / took.Seconds(), nil
}

// startProfiles makes the child processes write profiles of the next turn.
func (f *fleet) startProfiles(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for kind, list := range map[string][]*process{"process": f.members, "node": f.nodes.list} {
		for i, p := range list {
			if _, err := p.do(command{Profile: filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", kind, i))}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) endProfiles() error {
	for _, p := range slices.Concat(f.members, f.nodes.list) {
		if _, err := p.do(command{EndProfile: true}); err != nil {
			return err
		}
	}
	return nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
