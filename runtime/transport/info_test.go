package transport_test

import (
	"io"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func TestInfoDescribesConnection(t *testing.T) {
	dial := func(url string) transport.Conn {
		c, err := streamable.Dial(url, streamable.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	r, w := io.Pipe()
	a, b := inmemory.Pair(inmemory.Options{})
	defer b.Close()
	for name, test := range map[string]struct {
		conn transport.Conn
		want transport.Info
	}{
		"streams":            {stdio.New(r, w, stdio.Options{}), transport.Info{Network: "pipe"}},
		"HTTP":               {dial("http://example.com/mcp"), transport.Info{Network: "tcp", Protocol: "http", Host: "example.com", Port: 80}},
		"HTTPS":              {dial("https://example.com/mcp"), transport.Info{Network: "tcp", Protocol: "http", Host: "example.com", Port: 443}},
		"HTTP with a port":   {dial("http://[::1]:8080/mcp"), transport.Info{Network: "tcp", Protocol: "http", Host: "::1", Port: 8080}},
		"within one process": {a, transport.Info{}},
	} {
		defer test.conn.Close()
		var got transport.Info
		if c, ok := transport.As[transport.Described](loggedConn{test.conn}); ok {
			got = c.Info()
		}
		if got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
