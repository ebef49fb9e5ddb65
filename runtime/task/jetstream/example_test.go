package jetstream_test

import (
	"context"
	"log"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
)

// A server that can run as any number of processes: each takes over the tasks of one that dies.
func Example() {
	// Without MaxReconnects, the client gives up after an outage of about two minutes.
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
	store, err := jetstream.Open(ctx, js, jetstream.Options{Replicas: 3})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New("studio", "1.0.0", &server.Options{Tasks: task.Options{Store: store}})
	server.AddTool(s, "render", "Renders a film.", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		// What is recorded once is not rendered again, whichever process continues.
		return server.Step(ctx, c, "frame", func(context.Context) (string, error) { return "ready", nil })
	}, server.Durable())
	if err := s.ListenAndServe(ctx, "localhost:8080", nil); err != nil {
		log.Fatal(err)
	}
}
