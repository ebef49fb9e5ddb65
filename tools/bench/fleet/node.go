package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
)

// patience bounds the time in which nodes and members get ready.
const patience = time.Minute

// startNode starts a NATS server in this process. The nodes of a cluster are started one after the
// other, each with the addresses of those that run already, since all ports are free ones.
func startNode(r role) (first report, end func() error, err error) {
	o := &natsserver.Options{
		ServerName: fmt.Sprint("node-", r.Number), Host: "127.0.0.1", Port: natsserver.RANDOM_PORT,
		JetStream: true, StoreDir: r.Dir, NoSigs: true, NoLog: true,
	}
	if r.Nodes > 1 {
		o.Cluster = natsserver.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: natsserver.RANDOM_PORT}
		for _, address := range r.Routes {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: address})
		}
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		return report{}, nil, err
	}
	s.Start()
	end = func() error {
		s.Shutdown()
		s.WaitForShutdown()
		return nil
	}
	if !s.ReadyForConnections(patience) {
		end()
		return report{}, nil, errors.New("the NATS server is not ready")
	}
	first = report{URL: s.ClientURL()}
	if r.Nodes > 1 {
		first.Cluster = s.ClusterAddr().String()
	}
	return first, end, nil
}

// nodes is a running cluster, or a single server.
type nodes struct {
	list []*process
	urls string
	dir  string
	idle net.Listener
}

// startNodes starts n nodes and returns when a stream can have n replicas. One node can run in this
// process.
func startNodes(ctx context.Context, n int, inside bool) (_ *nodes, err error) {
	c := new(nodes)
	if c.dir, err = os.MkdirTemp("", "fleet"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	// A server accepts no clients without a route. That of the first node leads to a listener that
	// never responds.
	if c.idle, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	urls, routes := []string(nil), []string{c.idle.Addr().String()}
	for i := range n {
		r := role{Dir: filepath.Join(c.dir, fmt.Sprint(i)), Routes: routes, Nodes: n, Number: i}
		var p *process
		if inside {
			p = new(process)
			var end func() error
			p.report, end, err = startNode(r)
			p.end = func() { end() }
		} else {
			p, err = start(ctx, r)
		}
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", i, err)
		}
		if i == 0 {
			routes = nil
		}
		c.list, urls, routes = append(c.list, p), append(urls, p.URL), append(routes, p.Cluster)
	}
	c.urls = strings.Join(urls, ",")
	return c, c.ready(ctx)
}

// ready returns when a stream with a replica on each node can be created.
func (c *nodes) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, js, err := c.connect()
	if err != nil {
		return err
	}
	defer nc.Close()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		_, err = js.CreateStream(attempt, natsjs.StreamConfig{Name: "ready", Subjects: []string{"ready"}, Replicas: len(c.list)})
		if err == nil {
			err = js.DeleteStream(attempt, "ready")
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the nodes are not ready: %w", err)
		}
	}
}

// connect returns JetStream over a new connection.
func (c *nodes) connect() (*nats.Conn, natsjs.JetStream, error) {
	nc, err := nats.Connect(c.urls, nats.MaxReconnects(-1))
	if err != nil {
		return nil, nil, err
	}
	js, err := natsjs.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// stop ends the nodes and removes their files.
func (c *nodes) stop() {
	for _, p := range c.list {
		p.stop()
	}
	if c.idle != nil {
		c.idle.Close()
	}
	os.RemoveAll(c.dir)
}
