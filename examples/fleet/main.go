// Command fleet is a server whose tasks run on any number of processes, with NATS JetStream as
// their store. Each process serves the protocol over HTTP, runs tasks, or does both.
//
//	go run . -demo -diagram demo.svg
//	go run . -nats nats://localhost:4222 -http localhost:8080             # serves and runs tasks
//	go run . -nats nats://localhost:4222 -http localhost:8081 -tools none # only serves
//	go run . -nats nats://localhost:4222 -tools pack                      # only runs tasks
//
// The demo starts a NATS server in its own process and three workers as child processes. It kills a
// worker each second while a client calls a tool a hundred times.
//
// The example is a separate module, so that mcpwire does not depend on NATS.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// options are the flags of a process.
type options struct {
	nats, http, url, debug, tools, labels, name, secret, file string
	replicas                                                  int
	lease, drain                                              time.Duration

	history *debugpage.History // set by start; the page of each process shows those of all
}

// grace is the time for calls and work to end after the drain.
const grace = 5 * time.Second

func main() {
	var o options
	o.flags(flag.CommandLine)
	demonstrate := flag.Bool("demo", false, "run the demo")
	diagram := flag.String("diagram", "", "draw the demo to `FILE`, an SVG")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := o.run
	if o.file != "" {
		run = o.load
	}
	if *demonstrate {
		run = func(ctx context.Context) error {
			drawing, err := demo(ctx, os.Stdout, 100)
			if *diagram != "" {
				err = errors.Join(err, os.WriteFile(*diagram, drawing, 0o644))
			}
			return err
		}
	}
	if err := run(ctx); err != nil {
		log.Fatal("fleet: ", err)
	}
}

// flags defines the flags of a process.
func (o *options) flags(set *flag.FlagSet) {
	set.StringVar(&o.nats, "nats", nats.DefaultURL, "connect to the NATS servers at `URL`, several separated by commas")
	set.StringVar(&o.http, "http", "", "serve the protocol at `ADDRESS`, such as localhost:8080")
	set.StringVar(&o.url, "url", "", "`URL` at which the other processes reach this one (default from -http)")
	set.StringVar(&o.debug, "debug", "", "serve the operators' page at `ADDRESS`, and /health for readiness probes")
	set.StringVar(&o.tools, "tools", "all", "run the tasks of these tools: all, none or `NAMES` separated by commas")
	set.StringVar(&o.labels, "labels", "", "`LABELS` of the process that tasks may require, separated by commas, such as cold")
	set.StringVar(&o.name, "name", "", "`NAME` of the process for operators (default host name and process id)")
	set.StringVar(&o.secret, "secret", os.Getenv("FLEET_SECRET"), "32 bytes or more of `SECRET`, the same in all processes that serve (default $FLEET_SECRET)")
	set.StringVar(&o.file, "import", "", "copy the tasks of a bolt `FILE` to the servers, and end")
	set.IntVar(&o.replicas, "replicas", 0, "store each message on `N` NATS servers: 1, 3 or 5 (default as it is, 1 for new streams)")
	set.DurationVar(&o.drain, "drain", 10*time.Second, "`TIME` for running tasks to finish when the process ends; other processes take over the rest")
	set.DurationVar(&o.lease, "lease", task.DefaultLease, "`TIME` after which other processes take over the tasks of a process that has died")
}

// connect connects to the NATS servers. The connection outlives any outage, and finds another
// server before the lease ends if a server stalls.
func connect(url string, options ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(url, append(options, nats.MaxReconnects(-1), nats.PingInterval(task.DefaultLease/4))...)
}

// load copies the tasks of a bolt file to the servers. The fleet must not have started.
func (o *options) load(ctx context.Context) error {
	if _, err := os.Stat(o.file); err != nil {
		return err // Import would create the file
	}
	nc, err := connect(o.nats)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	store, err := jetstream.Open(ctx, js, jetstream.Options{Name: "fleet", Replicas: o.replicas})
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := jetstream.Import(ctx, store, bolt.File(o.file))
	log.Printf("copied %d tasks", n)
	return err
}

// run runs the process until ctx ends.
func (o *options) run(ctx context.Context) error {
	if o.name == "" {
		host, _ := os.Hostname()
		o.name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	nc, err := connect(o.nats, nats.Name(o.name))
	if err != nil {
		return err
	}
	defer nc.Close()
	s, store, err := o.start(ctx, nc)
	if err != nil {
		return err
	}
	defer store.Close()
	defer s.Close()
	log.Printf("%s has joined the fleet", o.name)
	if o.debug != "" {
		listener, err := net.Listen("tcp", o.debug)
		if err != nil {
			return err
		}
		web := &http.Server{Handler: o.operate(s, store), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
		go web.Serve(listener) // ends with Close
		defer web.Close()
	}
	if o.http == "" {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain+grace)
		defer cancel()
		return s.Shutdown(end)
	}
	listener, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	return o.serve(ctx, s, listener, nc)
}

// start starts the server of the process, which joins the fleet.
func (o *options) start(ctx context.Context, nc *nats.Conn) (*server.Server, *jetstream.Store, error) {
	js, err := natsjs.New(nc)
	if err != nil {
		return nil, nil, err
	}
	store, err := jetstream.Open(ctx, js, jetstream.Options{Name: "fleet", Replicas: o.replicas})
	if err != nil {
		return nil, nil, err
	}
	cfg := &server.Options{Tasks: task.Options{Store: store}}
	cfg.Limits.Drain = o.drain
	if o.secret != "" {
		cfg.Shared.StateKeys = [][]byte{[]byte(o.secret)}
	}
	o.history = debugpage.NewHistory(0)
	cfg.Tasks.Hooks.Audit, cfg.Tasks.Hooks.Queried = o.history.Add, o.history.Respond
	cfg.Tasks.Recovery.MaxReruns = 100 // the demo kills a worker each second
	cfg.Tasks.Member = task.Member{Name: o.name, Lease: o.lease}
	switch o.tools {
	case "all":
	case "none":
		cfg.Tasks.Member.Tools = []string{}
	default:
		cfg.Tasks.Member.Tools = strings.Split(o.tools, ",")
	}
	if o.labels != "" {
		cfg.Tasks.Member.Labels = strings.Split(o.labels, ",")
	}
	s := server.New("fleet", "1", cfg)
	server.AddTool(s, "pack", "Packs the items of an order, one after the other.", o.pack, server.Durable(), server.RequireLabelsFor(labelsOf))
	if err := s.Start(ctx); err != nil {
		store.Close()
		return nil, nil, err
	}
	return s, store, nil
}

// operate returns the operators' page of the process, and its health.
func (o *options) operate(s *server.Server, store *jetstream.Store) http.Handler {
	tasks := s.Tasks()
	mux := http.NewServeMux()
	mux.Handle("/", debugpage.New(debugpage.Of(tasks, store, o.history)))
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if err := tasks.Health(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

// serve serves the protocol on a listener until ctx ends.
func (o *options) serve(ctx context.Context, s *server.Server, listener net.Listener, nc *nats.Conn) error {
	address := cmp.Or(o.url, "http://"+listener.Addr().String()+"/mcp")
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	sessions, err := jetstreamstore.Open(ctx, js, jetstreamstore.Options{Replicas: o.replicas})
	if err != nil {
		return err
	}
	locator, err := sessions.Join(ctx, jetstreamstore.LocatorOptions{URL: address, Lease: o.lease})
	if err != nil {
		return err
	}
	defer locator.Close()
	handler, err := s.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: sessions, Locator: locator}})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	log.Print("serving at ", address)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }() // ends with Shutdown
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.drain+grace)
	defer cancel()
	return errors.Join(err, s.Shutdown(end), handler.Shutdown(end), web.Shutdown(end)) // in this order
}

// order is the input of tool pack.
type order struct {
	Items []string `json:"items" jsonschema:"the items to pack" minItems:"1"`
	Cold  bool     `json:"cold,omitempty" jsonschema:"whether the items must stay cold"`
}

// labelsOf returns the labels that a process needs to pack an order.
func labelsOf(_ context.Context, arguments json.RawMessage) []string {
	var in order
	if err := json.Unmarshal(arguments, &in); err != nil || !in.Cold {
		return nil // arguments that are not valid are rejected later
	}
	return []string{"cold"}
}

// parcel is the output of tool pack.
type parcel struct {
	Packed []packed `json:"packed"`
}

// packed is an item of a parcel.
type packed struct {
	Item string    `json:"item"`
	By   string    `json:"by" jsonschema:"name of the process that has packed the item"`
	At   time.Time `json:"at" jsonschema:"when the process was done"`
}

// packing is the time that it takes to pack an item.
const packing = 200 * time.Millisecond

// pack is the handler of tool pack. It packs each item in a step: once a step is recorded, no
// process packs its item again.
func (o *options) pack(ctx context.Context, c *server.Call, in order) (parcel, error) {
	var out parcel
	for i, item := range in.Items {
		done, err := server.Step(ctx, c, fmt.Sprintf("item %d", i+1), func(ctx context.Context) (packed, error) {
			select {
			case <-time.After(packing):
				return packed{item, o.name, time.Now()}, nil
			case <-ctx.Done():
				return packed{}, context.Cause(ctx)
			}
		})
		if err != nil {
			return parcel{}, err
		}
		out.Packed = append(out.Packed, done)
		if err := c.Progress(float64(i+1), float64(len(in.Items)), item+" is packed"); err != nil {
			return parcel{}, err
		}
	}
	return out, nil
}
