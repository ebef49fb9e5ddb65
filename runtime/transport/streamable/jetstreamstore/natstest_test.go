package jetstreamstore_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serve starts n servers of NATS with JetStream, which end with the test.
func serve(t *testing.T, n int) []*server.Server {
	t.Helper()
	servers := make([]*server.Server, n)
	routes := make([]*url.URL, n)
	started := make(chan struct{})
	for i := range routes { // a server must know the ports of the others before they listen
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		routes[i] = &url.URL{Scheme: "nats-route", Host: l.Addr().String()}
		go relay(l, func() string { // ends with l
			<-started
			return servers[i].ClusterAddr().String()
		})
	}
	for i := range n {
		o := &server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		}
		if n > 1 {
			o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoAdvertise: true}
			o.Routes = routes
		}
		s, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		servers[i] = s
	}
	if n > 1 {
		for _, s := range servers {
			wait(t, "address of the cluster", func() bool { return s.ClusterAddr() != nil })
		}
	}
	close(started)
	for _, s := range servers {
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("server is not ready")
		}
	}
	wait(t, "leader of the cluster", func() bool {
		return n == 1 || slices.ContainsFunc(servers, func(s *server.Server) bool {
			return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n
		})
	})
	return servers
}

// relay passes connections on to an address.
func relay(l net.Listener, to func() string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() { // ends with the connection
			defer in.Close()
			out, err := net.Dial("tcp", to())
			if err != nil {
				return
			}
			defer out.Close()
			go func() {
				defer out.Close()
				io.Copy(out, in)
			}()
			io.Copy(in, out)
		}()
	}
}

// connect returns a connection to the servers.
func connect(t *testing.T, servers []*server.Server) jetstream.JetStream {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	nc, err := nats.Connect(strings.Join(urls, ","), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// wait waits until done returns true.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no " + what)
		}
	}
}
