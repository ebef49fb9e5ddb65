package transport_test

import (
	"context"
	"fmt"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// A transport that authenticates its peer sets the principal in the context of its messages.
func ExampleWithPrincipal() {
	ctx := transport.WithPrincipal(context.Background(), "ann")
	fmt.Println(transport.Principal(ctx))
	_, ok := transport.Principal(context.Background())
	fmt.Println(ok)
	// Output:
	// ann true
	// false
}
