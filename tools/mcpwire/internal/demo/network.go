package demo

import (
	"io"
	"net"
	"sync"
)

// network is a TCP proxy between the client and the server whose connections can be cut. It is safe
// for concurrent use.
type network struct {
	listener net.Listener
	group    sync.WaitGroup

	mu     sync.Mutex
	server string // the address of the server
	conns  map[net.Conn]bool
	closed bool
}

// newNetwork starts a proxy for a server on a loopback address. The caller must close it.
func newNetwork(server string) (*network, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &network{listener: listener, server: server, conns: map[net.Conn]bool{}}
	n.group.Go(n.accept) // ends with close
	return n, nil
}

// address returns the address for clients.
func (n *network) address() string { return n.listener.Addr().String() }

// setServer changes the address of the server for new connections.
func (n *network) setServer(server string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server = server
}

// cut closes all connections. Clients can make new ones.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		conn.Close()
	}
}

// close stops the proxy and waits for its goroutines.
func (n *network) close() {
	n.listener.Close()
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.cut()
	n.group.Wait()
}

func (n *network) accept() {
	for {
		conn, err := n.listener.Accept()
		if err != nil {
			return
		}
		n.group.Go(func() { n.forwardConn(conn) }) // ends when either side closes, or with cut or close
	}
}

// forwardConn forwards one connection to the server.
func (n *network) forwardConn(client net.Conn) {
	defer client.Close()
	n.mu.Lock()
	address := n.server
	n.mu.Unlock()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return // the server is down, so the client's connection is closed
	}
	defer server.Close()
	if !n.add(client) {
		return
	}
	defer n.remove(client)
	n.group.Go(func() { // ends as forwardConn does
		io.Copy(server, client)
		server.Close()
	})
	io.Copy(client, server)
}

// add registers a connection for cut. It returns false if the network is closed.
func (n *network) add(conn net.Conn) (ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.conns[conn] = true
	return true
}

func (n *network) remove(conn net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, conn)
}
