package gosdk

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A client may cancel a request just before the SDK gets it from the connection.
func TestCancelledRequestIsNotForwarded(t *testing.T) {
	for _, cancels := range []bool{true, false} {
		id, err := jsonrpc.MakeID("one")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		c := &connection{serving: map[jsonrpc.ID]context.CancelCauseFunc{id: cancel}}
		cancelled := func() bool { return c.cancelRequest(json.RawMessage(`{"requestId":"one"}`)) }
		if cancels && !cancelled() {
			t.Error("the SDK got the cancellation of a request that it does not have")
		}
		if got := c.release(forwarded{message: &jsonrpc.Request{ID: id}, ctx: ctx}); got == cancels {
			t.Errorf("cancelled is %t, forwarded is %t", cancels, got)
		}
		if cancelled() {
			t.Error("the SDK did not get the cancellation of its request")
		}
	}
}
