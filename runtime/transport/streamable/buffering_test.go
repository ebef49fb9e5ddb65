package streamable_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bufferingProxy is a proxy in front of a server. In both directions, it holds data until a number
// of bytes or a delay is reached. Accept returns the server's side of a connection.
type bufferingProxy struct {
	net.Listener // accepts the connections of clients

	seed  uint64
	conns atomic.Uint64 // number of accepted connections

	delayed atomic.Int64 // bytes forwarded because of the delay
	filled  atomic.Int64 // bytes forwarded because of their number
}

func (p *bufferingProxy) Accept() (net.Conn, error) {
	client, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	proxy, server := net.Pipe()
	random := rand.New(rand.NewPCG(p.seed, p.conns.Add(1))) // independent of other connections
	for _, direction := range []struct{ from, to net.Conn }{{client, proxy}, {proxy, client}} {
		size, delay := 1+random.IntN(2000), time.Duration(random.Int64N(int64(10*time.Second)))
		go p.forward(direction.from, direction.to, size, delay) // ends with either connection
	}
	return server, nil
}

// forward forwards data until one of the two connections ends, and closes both.
func (p *bufferingProxy) forward(from, to net.Conn, size int, delay time.Duration) {
	arrived, done := make(chan []byte), make(chan struct{})
	defer to.Close()
	defer from.Close()
	defer close(done)
	go func() { // ends with the connection
		defer close(arrived)
		for {
			b := make([]byte, 4096)
			n, err := from.Read(b)
			if err != nil {
				return
			}
			select {
			case arrived <- b[:n]:
			case <-done:
				return
			}
		}
	}()
	var held []byte
	var due <-chan time.Time
	for {
		passed := &p.filled
		select {
		case b, ok := <-arrived:
			if !ok {
				to.Write(held)
				return
			}
			if held == nil {
				due = time.After(delay)
			}
			held = append(held, b...)
			if len(held) < size {
				continue
			}
		case <-due:
			passed = &p.delayed
		}
		n, err := to.Write(held)
		passed.Add(int64(n))
		if err != nil {
			return
		}
		held, due = nil, nil
	}
}

// Tasks work through a proxy that delays and merges data: nothing is lost or duplicated.
func TestTasksThroughBufferingProxy(t *testing.T) {
	var delayed, filled int64
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %#x", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &bufferingProxy{seed: seed}
				o := newTools()
				created := runTasksOver(t, o, func(l net.Listener) net.Listener {
					p.Listener = l
					return p
				})
				if got := int(o.calls.Load()); created != 6 || got != 6 {
					t.Errorf("tools ran %d times, for %d calls", got, created)
				}
				delayed += p.delayed.Load()
				filled += p.filled.Load()
			})
		})
	}
	if delayed == 0 || filled == 0 {
		t.Errorf("%d bytes were forwarded because of the delay, %d because of their number", delayed, filled)
	}
}
