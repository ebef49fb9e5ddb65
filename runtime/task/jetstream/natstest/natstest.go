// Package natstest runs NATS servers with JetStream inside a test, on loopback and on free ports,
// for tests of programs that run as a fleet.
package natstest

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// Cluster is one server or several. Its methods may be called concurrently.
type Cluster struct{ servers *natstest.Cluster }

// Run starts n servers and stops them when the test ends. Their files are in a folder that the test
// removes. One server is not clustered. Run returns once the servers accept requests for streams,
// and fails the test if they do not start.
func Run(t testing.TB, n int) *Cluster {
	t.Helper()
	return &Cluster{natstest.Run(t, n)}
}

// Connect returns a connection to any of the servers. It reconnects without a limit, and is closed
// when the test ends.
func (c *Cluster) Connect(t testing.TB) *nats.Conn {
	t.Helper()
	return c.servers.Connect(t)
}

// JetStream returns JetStream over a new connection; see [Cluster.Connect].
func (c *Cluster) JetStream(t testing.TB) jetstream.JetStream {
	t.Helper()
	return c.servers.JetStream(t)
}
