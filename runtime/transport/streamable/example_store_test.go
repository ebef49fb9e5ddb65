package streamable_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A store keeps sent events, so that a client receives those that it missed while it was
// disconnected. Pass the store in HandlerOptions.Sessions.Store.
func ExampleNewMemoryStore() {
	ctx := context.Background()
	store := streamable.NewMemoryStore(streamable.MemoryOptions{MaxSessionBytes: 1 << 20})
	for i, text := range []string{`{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","method":"b"}`} {
		if err := store.Append(ctx, "session", "stream", streamable.Event{Number: uint64(i + 1), Text: []byte(text)}); err != nil {
			log.Fatal(err)
		}
	}
	missed, err := store.Events(ctx, "session", "stream", 1)
	fmt.Println(len(missed), string(missed[0].Text), err)
	// Output:
	// 1 {"jsonrpc":"2.0","method":"b"} <nil>
}
