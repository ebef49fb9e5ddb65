package boltstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore"
)

// Events are still stored after a restart. Pass the store in HandlerOptions.Sessions.Store.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "events")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	open := func() *boltstore.Store {
		store, err := boltstore.Open(filepath.Join(dir, "events.db"), boltstore.Options{})
		if err != nil {
			log.Fatal(err)
		}
		return store
	}

	store := open()
	if err := store.PersistOpening(ctx, "session", streamable.Opening{Principal: "ann", Revision: mcp.Revision20251125, Client: []byte(`{}`)}); err != nil {
		log.Fatal(err)
	}
	if err := store.Append(ctx, "session", "stream", streamable.Event{Number: 1, Text: []byte(`{"jsonrpc":"2.0","method":"a"}`)}); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store = open()
	defer store.Close()
	opening, _, err := store.Load(ctx, "session")
	fmt.Println(opening.Principal, opening.Revision, err)
	missed, err := store.Events(ctx, "session", "stream", 0)
	fmt.Println(len(missed), err)
	// Output:
	// ann 2025-11-25 <nil>
	// 1 <nil>
}
