package transport_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// loggedConn logs written messages. It keeps the optional methods of the connection that it wraps.
type loggedConn struct{ transport.Conn }

func (c loggedConn) Write(ctx context.Context, m transport.Message) error {
	log.Printf("%s", m.Text)
	return c.Conn.Write(ctx, m)
}

func (c loggedConn) Unwrap() transport.Conn { return c.Conn }

// A wrapper of a connection keeps its optional methods with one line: Unwrap.
func ExampleAs() {
	a, b := inmemory.Pair(inmemory.Options{})
	defer a.Close()
	defer b.Close()
	conn := loggedConn{a}
	half, ok := transport.As[transport.HalfCloser](conn)
	fmt.Println(ok)
	half.CloseWrite()
	_, err := b.Read()
	fmt.Println(err)
	// Output:
	// true
	// EOF
}

// plainConn hides the optional methods of the connection that it wraps.
type plainConn struct{ transport.Conn }

// halfCloser is a connection that implements CloseWrite itself.
type halfCloser struct {
	loggedConn
	name string
}

func (*halfCloser) CloseWrite() error { return nil }

func TestAsFindsOutermostMethod(t *testing.T) {
	a := plainConn{}
	inner := &halfCloser{loggedConn{a}, "inner"}
	outer := &halfCloser{loggedConn{loggedConn{inner}}, "outer"}
	for _, test := range []struct {
		name string
		conn transport.Conn
		want *halfCloser
	}{
		{"not wrapped", inner, inner},
		{"wrapped twice", loggedConn{loggedConn{inner}}, inner},
		{"overridden", outer, outer},
		{"hidden", loggedConn{plainConn{inner}}, nil},
		{"absent", loggedConn{a}, nil},
		{"nil inside", loggedConn{}, nil},
		{"nil", nil, nil},
	} {
		got, ok := transport.As[transport.HalfCloser](test.conn)
		if ok != (test.want != nil) || ok && got != transport.HalfCloser(test.want) {
			t.Errorf("%s: As returned %v, %t", test.name, got, ok)
		}
	}
}
