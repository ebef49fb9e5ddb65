package natstest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
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
	drop  func(subject string) bool
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

// Heal undoes Cut and CutResponses. The messages that CutResponses withheld are lost.
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

// CutResponses makes the link deliver data to the servers but no data from them, until [Link.Heal].
func (l *Link) CutResponses() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf == nil {
		l.deaf = make(chan struct{})
	}
}

// Drop loses the messages to the connection for whose subject f returns true, without breaking the
// link. Nil loses none.
func (l *Link) Drop(f func(subject string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop = f
}

// drops reports whether a message to the connection is lost.
func (l *Link) drops(subject string) bool {
	l.mu.Lock()
	f := l.drop
	l.mu.Unlock()
	return f != nil && f(subject)
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
	c := &linked{Conn: conn, link: l, in: bufio.NewReader(conn)}
	l.conns[c] = true
	return c, nil
}

// linked is a connection over a link.
type linked struct {
	net.Conn
	link *Link
	in   *bufio.Reader
	rest []byte // of the frame that is being read
}

func (c *linked) Read(b []byte) (int, error) {
	var err error
	for len(c.rest) == 0 && err == nil {
		c.rest, err = c.frame()
	}
	c.link.mu.Lock()
	deaf := c.link.deaf
	c.link.mu.Unlock()
	if deaf != nil && err == nil {
		<-deaf
		return 0, net.ErrClosed
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, err
}

// frame reads a line of the protocol, with the message that follows it. It returns nil if the message
// is lost.
func (c *linked) frame() ([]byte, error) {
	frame, err := c.in.ReadBytes('\n')
	fields := strings.Fields(string(frame))
	if err != nil || len(fields) < 4 || fields[0] != "MSG" && fields[0] != "HMSG" {
		return frame, err
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return nil, err
	}
	message := make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.in, message); err != nil {
		return nil, err
	}
	if c.link.drops(fields[1]) {
		return nil, nil
	}
	return append(frame, message...), nil
}

func (c *linked) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
