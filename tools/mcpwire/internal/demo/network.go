package demo

import (
	"io"
	"net"
	"sync"
)

// network is what lies between the client and the server: it leads connections from its own address to that of the
// server, and can be cut. Its methods may be called by several goroutines.
type network struct {
	listener net.Listener
	group    sync.WaitGroup

	mu     sync.Mutex
	server string // where connections lead to
	conns  map[net.Conn]bool
	closed bool
}

// newNetwork returns a network on this machine that leads to a server. It is to be closed.
func newNetwork(server string) (*network, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &network{listener: listener, server: server, conns: map[net.Conn]bool{}}
	n.group.Go(n.accept) // ends with close
	return n, nil
}

// address is where clients find the server.
func (n *network) address() string { return n.listener.Addr().String() }

// lead makes further connections lead to another address.
func (n *network) lead(server string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server = server
}

// cut breaks all connections. New ones can be made.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for conn := range n.conns {
		conn.Close()
	}
}

// close ends the network, and waits for all of it.
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
		n.group.Go(func() { n.carry(conn) }) // ends when either side closes, or with cut or close
	}
}

// carry leads one connection to the server.
func (n *network) carry(client net.Conn) {
	defer client.Close()
	n.mu.Lock()
	address := n.server
	n.mu.Unlock()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return // the server is down, and so is the connection
	}
	defer server.Close()
	if !n.add(client) {
		return
	}
	defer n.remove(client)
	n.group.Go(func() { // ends as carry does
		io.Copy(server, client)
		server.Close()
	})
	io.Copy(client, server)
}

// add makes a connection one that can be cut; ok is false if the network is closed.
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
