package inmemory_test

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

func ExamplePair() {
	ctx := context.Background()
	client, server := inmemory.Pair(inmemory.Options{})
	fmt.Println(client.Write(ctx, transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)}))
	fmt.Println(client.Close())
	m, err := server.Read() // messages written before can still be read
	fmt.Println(string(m.Text), err)
	_, err = server.Read()
	fmt.Println(err)
	// Output:
	// <nil>
	// <nil>
	// {"jsonrpc":"2.0","method":"notifications/initialized"} <nil>
	// transport: connection closed
}
