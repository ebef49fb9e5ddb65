package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	codecwire "github.com/mcpwire/mcpwire/codec/wire"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// randomJSON returns an object with random spaces, escapes and notations of numbers, without line
// breaks.
func randomJSON(r *rand.Rand, depth int) string {
	var value func(depth int) string
	space := func() string { return strings.Repeat(" ", r.IntN(2)) }
	text := func() string {
		return []string{`""`, `"a"`, `"\u0041"`, `"é"`, `"\u00e9\n"`, `"<&>\/"`, `"taskId"`, `"\ud83d\ude00"`}[r.IntN(8)]
	}
	list := func(depth int, item func() string) string {
		var items []string
		for range r.IntN(4) {
			items = append(items, space()+item()+space())
		}
		return strings.Join(items, ",")
	}
	value = func(depth int) string {
		if depth == 0 {
			return []string{"1", "1.0", "-0", "1e3", "1E+03", "12345678901234567890", "0.10", "true", "null", text()}[r.IntN(10)]
		}
		if r.IntN(2) == 0 {
			return "[" + list(depth, func() string { return value(depth - 1) }) + "]"
		}
		n := 0
		return "{" + list(depth, func() string {
			n++
			return fmt.Sprintf(`"m%d"`, n) + space() + ":" + space() + value(depth-1)
		}) + "}"
	}
	return fmt.Sprintf(`{"a":%s%s}`, space(), value(depth))
}

func randomMessage(r *rand.Rand) wirerpc.Message {
	id := codec.IntScalar(r.Int64N(1<<54) - 1<<53)
	if r.IntN(2) == 0 {
		id = codec.StringScalar([]string{"", "a", "é", "1"}[r.IntN(4)])
	}
	payload := json.RawMessage(randomJSON(r, r.IntN(4)))
	switch r.IntN(5) {
	case 0:
		return wirerpc.NewRequest(id, "x/method", payload)
	case 1:
		return wirerpc.NewNotification("x/notification", payload)
	case 2:
		return wirerpc.NewRequest(id, "x/bare", nil)
	case 3:
		return wirerpc.NewResponse(id, payload)
	}
	return wirerpc.NewErrorResponse(id, &wirerpc.Error{Code: r.Int64N(100000) - 50000, Message: "é", Data: payload})
}

// sameMessage compares messages with their bytes.
var sameMessage = cmp.Options{
	cmp.Comparer(func(a, b wirerpc.ID) bool { return a == b }),
	cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }),
	cmp.Comparer(func(a, b codecwire.Extra) bool { return true }),
}

func TestMessagesPassByteForByte(t *testing.T) {
	for seed := range uint64(500) {
		want := randomMessage(rand.New(rand.NewPCG(seed, 0)))
		theirs, err := gosdk.FromMessage(&want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := gosdk.ToMessage(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got, sameMessage); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func TestConnectionsPassMessagesByteForByte(t *testing.T) {
	a, b := inmemory.Pair(inmemory.Options{})
	defer a.Close()
	theirs, err := gosdk.TransportOf(b).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ours := gosdk.ConnOf(theirs)
	defer ours.Close()
	pass := func(seed uint64, from, to transport.Conn) {
		t.Helper()
		want := randomMessage(rand.New(rand.NewPCG(seed, 0)))
		text, err := want.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := from.Write(t.Context(), transport.Message{Text: text}); err != nil {
			t.Fatal(err)
		}
		got, err := to.Read()
		if err != nil {
			t.Fatal(err)
		}
		if string(got.Text) != string(text) {
			t.Fatalf("seed %d: got %s, want %s", seed, got.Text, text)
		}
	}
	for seed := range uint64(500) {
		pass(seed, a, ours)
		pass(seed, ours, a)
	}
}

func TestConversionRejectsUnsupportedIDs(t *testing.T) {
	for _, text := range []string{"1.0", "1e3", "9007199254740993", "99999999999999999999"} {
		m, err := wirerpc.Parse([]byte(`{"jsonrpc":"2.0","id":` + text + `,"method":"m"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := gosdk.FromMessage(&m); err == nil {
			t.Errorf("%s became %v", text, got)
		}
	}
	a, b := inmemory.Pair(inmemory.Options{})
	defer a.Close()
	theirs, err := gosdk.TransportOf(b).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"jsonrpc":"2.0","id":1e3,"method":"m"}`, `{"jsonrpc":"2.0","id":1,"method":"m"}`} {
		if err := a.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := theirs.Read(t.Context()); err != nil || m.(*jsonrpc.Request).ID.Raw() != int64(1) {
		t.Errorf("got %v, %v", m, err)
	}
	answer, err := a.Read()
	if err != nil || !strings.Contains(string(answer.Text), `"id":1e3,"error":{"code":-32600,"message":"gosdk: id 1e3 is not supported by the SDK"}`) {
		t.Errorf("got %s, %v", answer.Text, err)
	}
}

// TestConnectionsServeSessions has a server of the SDK over a connection of this module, and a
// session of this module over a connection of the SDK.
func TestConnectionsServeSessions(t *testing.T) {
	s := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "hi"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hi"}}}, nil, nil
	})
	a, b := inmemory.Pair(inmemory.Options{})
	served, err := s.Connect(t.Context(), gosdk.TransportOf(a), nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := gosdk.TransportOf(b).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := session.Connect(t.Context(), gosdk.ConnOf(theirs), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.ToServer{Caller: c}.CallTool(t.Context(), &wire.CallToolRequestParams{Name: "hi", Arguments: json.RawMessage(`{}`)})
	if err != nil || r.(*wire.CallToolResult).Content[0].(*wire.TextContent).Text != "hi" {
		t.Errorf("got %v, %v", r, err)
	}
	c.Close()
	if err := served.Wait(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// TestClientOverConnectionInMemory calls tasks over connections of this module.
func TestClientOverConnectionInMemory(t *testing.T) {
	for _, revision := range []wire.Revision{wire.Revision20251125, wire.Revision20260728} {
		t.Run(string(revision), func(t *testing.T) {
			s := joinedtest.NewServer()
			defer s.Close()
			a, b := mcp.NewInMemoryTransports()
			theirs, err := b.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			go s.Run(context.Background(), gosdk.ConnOf(theirs)) // ends with the client
			c, err := gosdk.Connect(t.Context(), newClient(), a, &mcp.ClientSessionOptions{ProtocolVersion: string(revision)})
			if err != nil {
				t.Fatal(err)
			}
			joinedtest.RunClient(t, testClient{c}, revision)
		})
	}
}

func TestDecodeAndEncode(t *testing.T) {
	const text = `{"content":[{"type":"text","text":"a"}],"structuredContent":{"n":1}}`
	r, err := gosdk.Decode[mcp.CallToolResult](json.RawMessage(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := gosdk.Encode(r); string(got) != text || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := gosdk.Decode[mcp.CallToolResult](json.RawMessage(`[]`)); err == nil {
		t.Error("an array was decoded")
	}
}
