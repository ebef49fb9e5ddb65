// Package natstest runs NATS servers with JetStream inside a test process, on loopback and on free
// ports, and lets a test stop and restart each of them.
package natstest

import (
	"context"
	"fmt"
	"io"
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
// Kill and Restart of the same node.
type Cluster struct {
	t     testing.TB
	nodes []*node
	mu    sync.Mutex // guards node.server
}

// route forwards connections between the nodes of a cluster to one of them. Its address stays the
// same when the node restarts with another port.
func (c *Cluster) route(l net.Listener, i int) {
	for { // ends when the test closes l
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			s := c.Server(i)
			if s == nil || s.ClusterAddr() == nil {
				return
			}
			out, err := net.Dial("tcp", s.ClusterAddr().String())
			if err != nil {
				return
			}
			go func() { // ends with in or out
				defer out.Close()
				defer in.Close()
				io.Copy(out, in)
			}()
			defer out.Close()
			io.Copy(in, out)
		}()
	}
}

// node is a server of a cluster. A restarted server has the same name and the same files.
type node struct {
	options server.Options
	server  *server.Server // nil while the node is stopped
}

// Run starts n servers and stops them when the test ends. Their files are in a folder that the test
// removes. One server is not clustered. Run returns once the servers accept requests for streams.
// Each function in configure may change the options of a server before it starts.
func Run(t testing.TB, n int, configure ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for i := range n {
		o := server.Options{
			ServerName: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		}
		if n > 1 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatalf("natstest: %v", err)
			}
			t.Cleanup(func() { l.Close() })
			go c.route(l, i)
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: l.Addr().String(), NoAdvertise: true}
		}
		for _, f := range configure {
			f(&o)
		}
		c.nodes = append(c.nodes, &node{options: o})
	}
	t.Cleanup(func() {
		for i := range c.nodes {
			c.Kill(i)
		}
	})
	for i := range c.nodes {
		c.Restart(i)
	}
	c.until("the cluster elects a leader", func() bool {
		for i := range c.nodes {
			if s := c.Server(i); n == 1 || s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n {
				return true
			}
		}
		return false
	})
	return c
}

// until waits until a condition of the servers holds. The servers have no events for it.
func (c *Cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("natstest: waited in vain until %s", what)
		}
	}
}

// Server returns a running server, or nil if it is stopped.
func (c *Cluster) Server(i int) *server.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i].server
}

// Kill stops a server if it runs, and returns once it has ended.
func (c *Cluster) Kill(i int) {
	c.mu.Lock()
	s := c.nodes[i].server
	c.nodes[i].server = nil
	c.mu.Unlock()
	if s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Restart starts a server that is stopped, with the files that it had, and returns once it accepts
// connections.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	o := c.nodes[i].options // the ports are free ones each time
	for j, other := range c.nodes {
		if j != i {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: other.options.Cluster.Advertise})
		}
	}
	s, err := server.NewServer(&o)
	if err != nil {
		c.t.Fatalf("natstest: %v", err)
	}
	s.Start()
	c.mu.Lock()
	c.nodes[i].server = s // for route
	c.mu.Unlock()
	if !s.ReadyForConnections(patience) {
		c.t.Fatalf("natstest: node %d is not ready", i)
	}
}

// Leader returns the number of the node that leads a stream, and waits until there is one.
func (c *Cluster) Leader(stream string) (leader int) {
	c.t.Helper()
	c.until("stream "+stream+" has a leader", func() bool {
		for i := range c.nodes {
			if s := c.Server(i); s != nil && s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// Current waits until all running nodes have the data of a stream.
func (c *Cluster) Current(stream string) {
	c.t.Helper()
	c.until("all nodes are current", func() bool {
		for i := range c.nodes {
			if s := c.Server(i); s != nil && !s.JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				return false
			}
		}
		return true
	})
}

// Dial implements [nats.CustomDialer]. It knows the nodes as hosts "node-0", "node-1" and so on,
// whatever their present ports are.
func (c *Cluster) Dial(network, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node-"))
	if err != nil || i >= len(c.nodes) {
		return nil, fmt.Errorf("natstest: no node %q", address)
	}
	s := c.Server(i)
	if s == nil {
		return nil, fmt.Errorf("natstest: node %d is stopped", i)
	}
	return net.Dial(network, s.Addr().String())
}

// Connect returns a connection that the test closes when it ends. It connects to the given nodes,
// or to any if there are none, and goes on to reconnect forever.
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

// JetStream returns JetStream over a connection of its own; see [Cluster.Connect].
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
