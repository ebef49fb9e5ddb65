package recorder

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// The client of a bridge keeps its connection when the server loses the session.
func TestBridgeReplacesLostSession(t *testing.T) {
	sessions := make(chan *session.Session, 10)
	start := func() *streamable.Handler {
		return streamable.NewHandler(func(_ *http.Request, conn transport.Conn) {
			sessions <- session.Serve(conn, &mcp.InitializeResult{}, nil)
		}, streamable.HandlerOptions{})
	}
	var current atomic.Pointer[streamable.Handler]
	current.Store(start())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
	defer web.Close()
	defer func() { current.Load().Close() }()
	client, near := inmemory.Pair(inmemory.Options{})
	var file bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- Forward(t.Context(), trace.NewLog(&file), Server{URL: web.URL}, near) }() // ends with the client
	write := func(text string) {
		t.Helper()
		if err := client.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() jsonrpc.Message {
		t.Helper()
		m, err := client.Read()
		if err != nil {
			t.Fatal(err)
		}
		message, err := jsonrpc.Parse(m.Text)
		if err != nil {
			t.Fatal(err)
		}
		return message
	}
	write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	read()
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err := (<-sessions).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := current.Swap(start())
	old.Close()
	write(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	m := read() // an error: the server has rejected the request, or its connection has closed
	if m.Kind != jsonrpc.KindErrorResponse || m.ID.String() != "2" {
		t.Errorf("got %+v", m)
	}
	if err := (<-sessions).Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for m.Kind == jsonrpc.KindErrorResponse { // until the bridge, too, has completed the handshake
		write(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		m = read()
	}
	if diff := cmp.Diff("3", m.ID.String()); diff != "" {
		t.Errorf("id (-want +got):\n%s", diff)
	}
	client.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(file.String(), transport.ErrSessionLost.Error()) {
		t.Errorf("the loss is not recorded:\n%s", &file)
	}
}
