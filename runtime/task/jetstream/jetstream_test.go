package jetstream_test

import (
	"context"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/contracttest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// whole makes the suite take minutes.
var whole = flag.Bool("whole", false, "run the suite of stores as often as for stores in memory")

// stores is the number of stores that the tests have opened. It makes their names unique.
var stores atomic.Uint32

// open opens a store, with a new name unless options have one. The test closes it when it ends.
func open(t testing.TB, js natsjs.JetStream, options jetstream.Options) *jetstream.Store {
	t.Helper()
	if options.Name == "" {
		options.Name = fmt.Sprint("test-", stores.Add(1))
	}
	s, err := jetstream.Open(context.Background(), js, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStoreOnOneNode(t *testing.T) {
	c := natstest.Run(t, 1)
	suite(t, c.JetStream(t), nil, jetstream.Options{Storage: natsjs.MemoryStorage})
}

func TestStoreOnThreeNodes(t *testing.T) {
	c := natstest.Run(t, 3)
	o := jetstream.Options{Replicas: 3, Partitions: 2}
	if testing.Short() {
		o.Storage = natsjs.MemoryStorage
	}
	suite(t, c.JetStream(t, 0), c.JetStream(t, 1), o)
}

// suite runs the suite for stores. If second is not nil, two stores take turns, each with a
// connection of its own.
func suite(t *testing.T, first, second natsjs.JetStream, options jetstream.Options) {
	subject := contracttest.Subject{
		Open: func(t *testing.T) task.Store { return open(t, first, options) },
		Reopen: func(t *testing.T, s task.Store) task.Store {
			options := options
			options.Name = s.(*jetstream.Store).Name()
			return open(t, first, options)
		},
		Shared: &contracttest.Shared{Waiters: jetstream.Waiters, Whole: *whole},
	}
	if second != nil {
		subject.Shared.Attach = func(t *testing.T, s task.Store) task.Store {
			options := options
			options.Name = s.(*jetstream.Store).Name()
			return open(t, second, options)
		}
	}
	contracttest.Run(t, subject)
}
