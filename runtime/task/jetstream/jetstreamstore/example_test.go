package jetstreamstore_test

import (
	"context"
	"log"
	"net/http"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A process of a server whose sessions any process can serve, behind a plain load balancer.
func Example() {
	nc, err := nats.Connect("nats://localhost:4222", nats.MaxReconnects(-1), nats.PingInterval(task.DefaultLease/4))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	sessions, err := jetstreamstore.Open(ctx, js, jetstreamstore.Options{Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	// The other processes reach this one at this URL.
	locator, err := sessions.Join(ctx, jetstreamstore.LocatorOptions{URL: "http://10.0.0.7:8080/mcp"})
	if err != nil {
		log.Fatal(err)
	}
	defer locator.Close()
	s := server.New("shop", "1.0.0", &server.Options{Shared: server.Shared{Bus: jetstreamstore.NewBus(nc, "")}})
	defer s.Close()
	handler, err := s.Handler(&streamable.HandlerOptions{Sessions: streamable.Sessions{Store: sessions, Locator: locator}})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe(":8080", nil))
}
