package natstest

import (
	"io"
	"net"
	"sync"
)

// network forwards the connections between the nodes of a cluster, so that a test can cut them.
type network struct {
	mu       sync.Mutex
	isolated map[int]bool
	conns    map[*routeConn]bool
}

// routeConn is a connection from one node to another.
type routeConn struct {
	net.Conn
	from, to int
}

// add adds a connection. It returns false if its nodes are cut off from each other.
func (n *network) add(c *routeConn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.isolated[c.from] || n.isolated[c.to] {
		return false
	}
	n.conns[c] = true
	return true
}

func (n *network) remove(c *routeConn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// listenRoute forwards connections from one node to another until the test ends, and returns the
// address to connect to. It stays the same when the node restarts with another port.
func (c *Cluster) listenRoute(from, to int) string {
	return c.serve(func(in net.Conn) {
		running := c.running(to)
		if running == nil || running.routes() == "" {
			return
		}
		out, err := net.Dial("tcp", running.routes())
		if err != nil {
			return
		}
		route := &routeConn{out, from, to}
		defer c.network.remove(route)
		if c.network.add(route) {
			forward(in, out)
		}
		out.Close()
	})
}

// serve calls f for each connection to the address that it returns, until the test ends. It closes
// the connection when f returns.
func (c *Cluster) serve(f func(net.Conn)) (address string) {
	c.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatalf("natstest: %v", err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() { // ends with l
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with the connection
				defer in.Close()
				f(in)
			}()
		}
	}()
	return l.Addr().String()
}

// forward copies between two connections until one of them ends. Then it closes both.
func forward(a, b net.Conn) {
	done := make(chan struct{})
	go func() { // ends with a or b
		defer close(done)
		io.Copy(b, a)
		a.Close()
		b.Close()
	}()
	io.Copy(a, b)
	a.Close()
	b.Close()
	<-done
}

// Isolate cuts a node off from the other nodes until [Cluster.Rejoin]. Its clients stay connected.
func (c *Cluster) Isolate(i int) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.network.isolated[i] = true
	for conn := range c.network.conns {
		if conn.from == i || conn.to == i {
			conn.Close()
		}
	}
}

// Rejoin undoes [Cluster.Isolate]. The nodes connect to each other within seconds.
func (c *Cluster) Rejoin(i int) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.isolated, i)
}
