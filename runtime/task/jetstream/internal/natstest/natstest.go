// Package natstest runs NATS servers with JetStream for tests, on loopback and on free ports. A
// test can stop and restart each of them.
//
// [Run] runs the servers inside the test process, [RunProcesses] in separate processes. These
// can also stall and have a clock that is wrong. A [Disk] can be full.
//
// A test binary that imports this package runs a server, or holds a disk, in place of its tests if
// the environment asks for it. The package starts itself in this way.
package natstest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// patience bounds all waits. Only a test that fails reaches it.
const patience = time.Minute

// Cluster is a server or a cluster of servers. Its methods may be called concurrently, except for
// Kill, Shutdown and Restart of the same node.
type Cluster struct {
	t       testing.TB
	nodes   []*node
	network network
	mu      sync.Mutex // guards node.running, and nodes until Run returns
}

// node is a server of a cluster. A restarted server has the same name and the same files.
type node struct {
	options server.Options
	process bool     // the server runs in a separate process
	clock   *Clock   // of the process; nil if it cannot be set
	running instance // nil while the node is stopped
}

// instance is a running server.
type instance interface {
	clients() string // address for clients
	routes() string  // address for other servers; "" if it does not listen for them
	awake() bool     // neither ended nor paused
	is(q question) bool
	stop()
	shutdown()
}

// question asks whether a server leads a stream or the cluster.
type question struct {
	// Shutdown tells the server to end, instead of asking.
	Shutdown bool
	// Stream is the name of a stream; "" stands for the cluster.
	Stream string
	// Current asks whether the server has all data of the stream, instead of whether it leads it.
	Current bool
	// Peers is the number of servers that the cluster must have; 0 if there is one server.
	Peers int
}

// embedded is a server in the test process.
type embedded struct{ *server.Server }

func (s embedded) clients() string { return s.Addr().String() }

func (s embedded) routes() string {
	if s.ClusterAddr() == nil {
		return ""
	}
	return s.ClusterAddr().String()
}

func (s embedded) awake() bool { return true }

func (s embedded) is(q question) bool {
	switch {
	case q.Stream == "":
		return q.Peers == 0 || s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == q.Peers
	case q.Current:
		return s.JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, q.Stream)
	}
	return s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, q.Stream)
}

func (s embedded) stop() {
	s.Shutdown()
	s.WaitForShutdown()
}

func (s embedded) shutdown() { s.stop() }

// start starts a server in this process and returns once it accepts connections.
func start(o *server.Options) (embedded, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return embedded{}, err
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		return embedded{}, fmt.Errorf("server %q is not ready", o.ServerName)
	}
	return embedded{s}, nil
}

// Run starts n servers and stops them when the test ends. Their files are in a folder that the test
// removes. One server is not clustered. Run returns once the servers accept requests for streams.
// Each function in configure may change the options of a server before it starts.
//
// With the race detector, the servers of a cluster run in separate processes: they read a map
// without its lock (nats-server 2.15.2, jetstream_cluster.go:6083).
func Run(t testing.TB, n int, configure ...func(*server.Options)) *Cluster {
	t.Helper()
	return run(t, n, raceDetector && n > 1, configure)
}

// run is Run and RunProcesses.
func run(t testing.TB, n int, processes bool, configure []func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t, network: network{isolated: map[int]bool{}, conns: map[*routeConn]bool{}}}
	c.mu.Lock() // the routes are served already
	for i := range n {
		o := server.Options{
			ServerName: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			JetStreamMaxStore: 1 << 40, // the default depends on the free space, which streams reserve
		}
		if n > 1 {
			// All routes are configured: what a node tells the others about itself leads nowhere.
			refuse := c.serve(func(net.Conn) {})
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: refuse, NoAdvertise: true}
			for j := range n {
				if j != i {
					o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: c.listenRoute(i, j)})
				}
			}
		}
		for _, f := range configure {
			f(&o)
		}
		each := &node{options: o, process: processes}
		if processes && canSetClock() {
			each.clock = NewClock(t)
		}
		c.nodes = append(c.nodes, each)
	}
	c.mu.Unlock()
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Kill(i)
		}
	})
	for i := range c.nodes {
		c.Restart(i)
	}
	peers := n
	if n == 1 {
		peers = 0
	}
	Until(t, "the cluster has a leader", func() bool { return len(c.find(question{Peers: peers})) > 0 })
	return c
}

// find returns the running nodes to which q applies.
func (c *Cluster) find(q question) (found []int) {
	for i := range c.nodes {
		if running := c.running(i); running != nil && running.is(q) {
			found = append(found, i)
		}
	}
	return found
}

// Until waits until a condition holds for which there is no event. It fails the test after a
// minute.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// Receive waits for a value of a channel, or for its end. It fails the test after a minute.
func Receive[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case value = <-from:
	case <-timer.C:
		t.Fatalf("waited in vain until %s", what)
	}
	return value
}

// Context returns a context that ends after a minute, or with the test.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// running returns the instance of a node, or nil if it is stopped.
func (c *Cluster) running(i int) instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].running
}

// Server returns a running server, or nil if it is stopped or runs in a separate process.
func (c *Cluster) Server(i int) *server.Server {
	s, _ := c.running(i).(embedded)
	return s.Server
}

// Intercept makes f receive the messages to a subject, in place of the subscribers, until f or the
// test calls end. The servers must run in the test process.
func (c *Cluster) Intercept(subject string, f func(m *nats.Msg, end func())) (end func()) {
	c.t.Helper()
	account := c.Server(0).GlobalAccount()
	end = func() { account.RemoveMapping(subject) }
	nc, own := c.Connect(c.t), nats.NewInbox()
	if _, err := nc.Subscribe(own, func(m *nats.Msg) { f(m, end) }); err != nil {
		c.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // the server knows the subscription
		c.t.Fatal(err)
	}
	if err := account.AddMapping(subject, own); err != nil {
		c.t.Fatal(err)
	}
	return end
}

// Kill stops a server if it runs, and returns once it has ended. A process is killed, and a server
// in the test process is shut down.
func (c *Cluster) Kill(i int) { c.end(i, instance.stop) }

// Shutdown is [Cluster.Kill], but a process, too, shuts its server down. It must not be paused.
func (c *Cluster) Shutdown(i int) { c.end(i, instance.shutdown) }

// end calls f for a server if it runs.
func (c *Cluster) end(i int, f func(instance)) {
	c.mu.Lock()
	running := c.nodes[i].running
	c.nodes[i].running = nil
	c.mu.Unlock()
	if running != nil {
		f(running)
	}
}

// Restart starts a server that is stopped, with the files that it had, and returns once it accepts
// connections.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	n := c.nodes[i]
	o := n.options // the ports are free ones each time
	var running instance
	var err error
	if n.process {
		running, err = startProcess(&o, n.clock)
	} else {
		running, err = start(&o)
	}
	if err != nil {
		c.t.Fatalf("natstest: node %d: %v", i, err)
	}
	c.mu.Lock()
	c.nodes[i].running = running // for route
	c.mu.Unlock()
}

// Leader returns the number of the node that leads a stream. It waits until exactly one of the
// nodes that run and are not paused takes itself for the leader: an earlier leader may do so for a
// while.
func (c *Cluster) Leader(stream string) int {
	c.t.Helper()
	var leaders []int
	Until(c.t, "stream "+stream+" has one leader", func() bool {
		leaders = c.find(question{Stream: stream})
		return len(leaders) == 1
	})
	return leaders[0]
}

// Current waits until all nodes that run and are not paused have the data of a stream, and exactly
// one of them takes itself for its leader.
func (c *Cluster) Current(stream string) {
	c.t.Helper()
	Until(c.t, "all nodes have the data of stream "+stream+", which has one leader", func() bool {
		awake := 0
		for i := range c.nodes {
			if running := c.running(i); running != nil && running.awake() {
				awake++
			}
		}
		return len(c.find(question{Stream: stream, Current: true})) == awake && len(c.find(question{Stream: stream})) == 1
	})
}

// Dial implements [nats.CustomDialer]. The hosts "node-0", "node-1" and so on are the nodes,
// independent of their present ports.
func (c *Cluster) Dial(network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node-"))
	if err != nil || i >= len(c.nodes) {
		return nil, fmt.Errorf("natstest: no node %q", address)
	}
	running := c.running(i)
	if running == nil {
		return nil, fmt.Errorf("natstest: node %d is stopped", i)
	}
	return net.Dial(network, running.clients())
}

// Connect returns a connection that the test closes when it ends. It connects to the given nodes,
// or to any node if none are given, and reconnects without a limit.
func (c *Cluster) Connect(t testing.TB, nodes ...int) *nats.Conn {
	t.Helper()
	return c.connect(t, c, nodes)
}

// connect is Connect with a dialer that knows the nodes.
func (c *Cluster) connect(t testing.TB, dialer nats.CustomDialer, nodes []int) *nats.Conn {
	t.Helper()
	if len(nodes) == 0 {
		for i := range c.nodes {
			nodes = append(nodes, i)
		}
	}
	var urls []string
	for _, i := range nodes {
		urls = append(urls, fmt.Sprintf("nats://node-%d:4222", i))
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.SetCustomDialer(dialer), nats.SkipHostLookup(), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(10*time.Millisecond, 0), nats.IgnoreDiscoveredServers())
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// JetStream returns JetStream over a new connection; see [Cluster.Connect].
func (c *Cluster) JetStream(t testing.TB, nodes ...int) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.Connect(t, nodes...))
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for { // a server of a cluster may not know the leader yet
		if _, err = js.AccountInfo(ctx); err == nil {
			return js
		}
		if ctx.Err() != nil {
			t.Fatalf("natstest: %v", err)
		}
	}
}
