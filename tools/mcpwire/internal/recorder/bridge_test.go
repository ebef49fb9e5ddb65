package recorder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// addressedConn is a connection that records the requests to which messages belong.
type addressedConn struct {
	transport.Conn
	sent     chan string // the request that each message is addressed to
	released chan string // ids
}

func (a *addressedConn) Read() (transport.Message, error) {
	m, err := a.Conn.Read()
	if parsed, fault := m.Parse(); err == nil && fault == nil && parsed.Kind == jsonrpc.KindRequest {
		m.Reply = &addressed{a, parsed.ID.String()}
	}
	return m, err
}

func (a *addressedConn) Write(ctx context.Context, m transport.Message) error {
	a.sent <- "for no request"
	return a.Conn.Write(ctx, m)
}

// addressed is the Reply of a request.
type addressed struct {
	a  *addressedConn
	id string
}

func (r *addressed) Send(ctx context.Context, text []byte) error {
	r.a.sent <- "for " + r.id
	return r.a.Conn.Write(ctx, transport.Message{Text: text})
}

func (r *addressed) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	if text == nil {
		r.a.released <- r.id
		return nil
	}
	r.a.sent <- "answers " + r.id
	return r.a.Conn.Write(ctx, transport.Message{Text: text})
}

func TestBridgeForwardsMessagesUnchanged(t *testing.T) {
	client, near := inmemory.Pair(inmemory.Options{})
	far, server := inmemory.Pair(inmemory.Options{})
	to := &addressedConn{near, make(chan string, 100), make(chan string, 1)}
	var file bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- newBridge(trace.NewLog(&file).Session(""), to, far).run(t.Context()) }() // ends with the server
	pass := func(from, to transport.Conn, text string) {
		t.Helper()
		if err := from.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		got, err := to.Read()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got.Text)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	for _, text := range []string{
		`{"jsonrpc":"2.0", "id":1, "method":"tools/call", "params":{"name":"a","_meta":{"progressToken":"x"},"n":1.50}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"b","_meta":{"progressToken":7}}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"c"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`,
		`not a message`,
	} {
		pass(client, server, text)
	}
	if id := <-to.released; id != "3" {
		t.Errorf("released %s", id)
	}
	for _, m := range []struct{ text, to string }{
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":1}}`, "for 1"},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}`, "for 2"},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"y","progress":1}}`, "for no request"},
		{`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, "for 2"},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}`, "for 2"},
		{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, "for no request"},
		{`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, "answers 2"},
		{`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, "for 1"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`, "answers 1"},
		{`{"jsonrpc":"2.0","id":9,"method":"ping"}`, "for no request"},
		{`[]`, "for no request"},
	} {
		pass(server, client, m.text)
		if got := <-to.sent; got != m.to {
			t.Errorf("%s is %s, want %s", m.text, got, m.to)
		}
	}
	// A late response to a cancelled request is dropped.
	if err := server.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":3,"result":{"content":[]}}`)}); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	if _, err := server.Read(); err != io.EOF {
		t.Errorf("the server receives %v, want %v", err, io.EOF)
	}
	pass(server, client, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"last words"}}`)
	server.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{`"text":"not a message"`, `"params":{"name":"a","_meta":{"progressToken":"x"},"n":1.50}}`, "last words"} {
		if !strings.Contains(file.String(), want) {
			t.Errorf("%s is not recorded:\n%s", want, &file)
		}
	}
}

func TestBridgeWaitsForInitializeResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := inmemory.Pair(inmemory.Options{})
		far, server := inmemory.Pair(inmemory.Options{})
		ended := make(chan error, 1)
		go func() { // ends when the client closes
			ended <- newBridge(trace.NewLog(io.Discard).Session(""), near, &lossyConn{Conn: far}).run(t.Context())
		}()
		var got []string
		read := make(chan bool)
		go func() { // ends with the connection
			defer close(read)
			for {
				m, err := server.Read()
				if err != nil {
					return
				}
				got = append(got, string(m.Text))
			}
		}()
		sent := []string{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`}
		for _, text := range sent {
			if err := client.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if diff := cmp.Diff(sent[:1], got); diff != "" {
			t.Errorf("before the response (-want +got):\n%s", diff)
		}
		if err := server.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		<-read
		if diff := cmp.Diff(sent, got); diff != "" {
			t.Errorf("all messages (-want +got):\n%s", diff)
		}
	})
}

// lossyConn is a connection to a server that cannot be half-closed, like HTTP. Read returns the
// errors of lost.
type lossyConn struct {
	transport.Conn
	lost chan error
}

func (w *lossyConn) Read() (transport.Message, error) {
	select {
	case err := <-w.lost:
		return transport.Message{}, err
	default:
		return w.Conn.Read()
	}
}

func TestBridgeClosesServerAfterLastResponse(t *testing.T) {
	client, near := inmemory.Pair(inmemory.Options{})
	far, server := inmemory.Pair(inmemory.Options{})
	lost := make(chan error, 1)
	ended := make(chan error, 1)
	var file bytes.Buffer
	go func() { // ends with the last answer
		ended <- newBridge(trace.NewLog(&file).Session(""), near, &lossyConn{far, lost}).run(t.Context())
	}()
	for _, text := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":"b","method":"ping"}`} {
		if err := client.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(); err != nil {
			t.Fatal(err)
		}
	}
	client.CloseWrite()
	lost <- &transport.DeliveryError{ID: codec.StringScalar("b"), Err: errors.New("cut")}
	for _, answer := range []string{`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`} {
		if err := server.Write(t.Context(), transport.Message{Text: []byte(answer)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for {
		m, err := client.Read()
		if err != nil {
			break
		}
		parsed, err := mcp.DecodeResponse("ping", m.Text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, parsed.ID.String())
		if parsed.Error != nil {
			got = append(got, parsed.Error.Message)
		}
	}
	slices.Sort(got) // the loss may be reported at any time
	if diff := cmp.Diff([]string{"", `"b"`, "1", "transport: message not delivered: cut"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := server.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("the server receives %v, want %v", err, transport.ErrClosed)
	}
}
