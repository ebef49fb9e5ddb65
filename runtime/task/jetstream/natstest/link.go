package natstest

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// Link is the network between one connection and a cluster. Its methods may be called concurrently.
type Link struct {
	cluster *Cluster

	mu    sync.Mutex
	cut   bool
	deaf  chan struct{} // closed by the end of deafness; nil if the connection hears
	conns map[*linked]bool
}

// ConnectLinked is [Cluster.Connect] over a link that the test controls.
func (c *Cluster) ConnectLinked(t testing.TB, nodes ...int) (*nats.Conn, *Link) {
	t.Helper()
	l := &Link{cluster: c, conns: make(map[*linked]bool)}
	return c.connect(t, l, nodes), l
}

// Listen returns the URLs, separated by commas, at which another process reaches the nodes over a
// link that the test controls.
func (c *Cluster) Listen() (urls string, l *Link) {
	c.t.Helper()
	l = &Link{cluster: c, conns: make(map[*linked]bool)}
	var list []string
	for i := range c.nodes {
		list = append(list, "nats://"+c.serve(func(in net.Conn) {
			if out, err := l.Dial("tcp", fmt.Sprintf("node-%d:4222", i)); err == nil {
				forward(in, out)
			}
		}))
	}
	return strings.Join(list, ","), l
}

// Cut breaks the link until [Link.Heal]: connections end, and new ones fail.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.conns {
		c.Conn.Close()
	}
	clear(l.conns)
}

// Heal undoes Cut and Deafen. What a deaf connection has not received is lost.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	if l.deaf != nil {
		for c := range l.conns {
			c.Conn.Close()
		}
		clear(l.conns)
		close(l.deaf)
		l.deaf = nil
	}
}

// Deafen makes the link deliver to the servers but nothing from them, until [Link.Heal].
func (l *Link) Deafen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf == nil {
		l.deaf = make(chan struct{})
	}
}

// Dial implements [nats.CustomDialer].
func (l *Link) Dial(network, address string) (net.Conn, error) {
	conn, err := l.cluster.Dial(network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		conn.Close()
		return nil, errors.New("natstest: link is cut")
	}
	c := &linked{conn, l}
	l.conns[c] = true
	return c, nil
}

// linked is a connection over a link.
type linked struct {
	net.Conn
	link *Link
}

func (c *linked) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.link.mu.Lock()
	deaf := c.link.deaf
	c.link.mu.Unlock()
	if deaf != nil && err == nil {
		<-deaf
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *linked) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
