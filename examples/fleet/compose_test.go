package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
)

// TestCompose runs the processes of compose.yaml with its arguments, but in one process and with other
// addresses and folders. The front end leaves a task to a worker.
func TestCompose(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	period, err := time.ParseDuration(regexp.MustCompile(`(?m)^  stop_grace_period: (\S+)`).FindStringSubmatch(string(text))[1])
	if err != nil {
		t.Fatal(err)
	}
	servers := 0
	var front *options
	var workers []*options
	var names []string // of the services
	for _, m := range regexp.MustCompile(`(?m)^  ([\w-]+):\n    <<: \*(nats|fleet)\n    command: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		name, kind, args := m[1], m[2], strings.Fields(m[3])
		names = append(names, name)
		if kind == "nats" {
			checkService(t, name, args)
			servers++
			continue
		}
		o := new(options)
		set := flag.NewFlagSet(name, flag.ContinueOnError)
		o.flags(set)
		if err := set.Parse(args); err != nil || set.NArg() > 0 {
			t.Fatalf("%s: %v, %q", name, err, set.Args())
		}
		var hosts []string
		for u := range strings.SplitSeq(o.nats, ",") {
			hosts = append(hosts, strings.TrimPrefix(u, "nats://"))
		}
		if o.name != name || !slices.Equal(hosts, names[:servers]) || o.replicas != servers {
			t.Errorf("%s has the options %+v", name, o)
		}
		if least := o.drain + grace; period <= least {
			t.Errorf("stop_grace_period is %v, must be more than %v", period, least)
		}
		o.secret = strings.Repeat("s", 32)
		if o.http == "" {
			workers = append(workers, o)
			continue
		}
		if u, err := url.Parse(o.url); err != nil || u.Host != name+o.http || u.Path != "/mcp" {
			t.Errorf("%s is reached at %q and listens at %q", name, o.url, o.http)
		}
		front = o
	}
	if servers != 3 || front == nil || len(workers) != 2 {
		t.Fatalf("compose.yaml has the services %q", names)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cluster := natstest.Run(t, servers)
	for _, o := range workers {
		startMember(t, ctx, cluster.Connect(t), o, nil)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	front.url = "http://" + listener.Addr().String() + "/mcp"
	startMember(t, ctx, cluster.Connect(t), front, listener)
	c, err := client.Dial(ctx, front.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := call(ctx, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	if by := p.Packed[0].By; !strings.HasPrefix(by, "worker-") {
		t.Errorf("%q has packed the item", by)
	}
}

// checkService checks the arguments of the NATS server of a service.
func checkService(t *testing.T, name string, args []string) {
	t.Helper()
	o, err := natsserver.ConfigureOptions(flag.NewFlagSet("nats-server", flag.ContinueOnError), args, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var routes, got []string
	for n := 1; n <= 3; n++ {
		if other := fmt.Sprint("nats-", n); other != name {
			routes = append(routes, "nats://"+other+":6222")
		}
	}
	for _, r := range o.Routes {
		got = append(got, r.String())
	}
	if o.ServerName != name || !o.JetStream || o.StoreDir != "/data" || o.Cluster.Name != "fleet" || o.Cluster.ListenStr != "nats://0.0.0.0:6222" || !slices.Equal(got, routes) {
		t.Errorf("%s has the arguments %q", name, args)
	}
}

// startMember starts a process of the fleet. It serves on the listener, if there is one.
func startMember(t *testing.T, ctx context.Context, nc *nats.Conn, o *options, listener net.Listener) {
	t.Helper()
	s, store, err := o.start(ctx, nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if listener == nil {
		t.Cleanup(func() { s.Close() })
		return
	}
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- o.serve(serving, s, listener, nc) }() // ends with end
	t.Cleanup(func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
