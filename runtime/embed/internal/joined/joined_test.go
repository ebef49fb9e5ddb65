package joined

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

func TestConnTakesMessagesOfSession(t *testing.T) {
	c := New(Options{Send: func(context.Context, transport.Message) error { return nil }})
	defer c.Close()
	c.prefix = "p-"
	for _, row := range []struct {
		text           string
		taken, arrived bool
	}{
		{`{"jsonrpc":"2.0","id":"p-1","result":{}}`, true, true},
		{`{"jsonrpc":"2.0","id":"p-1","error":{"code":1,"message":""}}`, true, true},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, false, false},
		{`{"jsonrpc":"2.0","id":"q-1","result":{}}`, false, false},
		{`{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`, true, true},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, true, true},
		{`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`, false, false},
		{`{"jsonrpc":"2.0","id":8,"method":"elicitation/create","params":{}}`, false, false},
		{`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{}}`, true, true},
		{`{"jsonrpc":"2.0","method":"notifications/tasks","params":{}}`, true, true},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`, false, true},
		{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, false, true},
		{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"p-3"}}}`, true, true},
		{`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, false, false},
	} {
		m, err := jsonrpc.Parse([]byte(row.text))
		if err != nil {
			t.Fatal(err)
		}
		if taken := c.Take(&m); taken != row.taken {
			t.Errorf("%s: taken is %t", row.text, taken)
		}
		if got := len(c.in) == 1; got != row.arrived {
			t.Errorf("%s: arrived is %t", row.text, got)
		} else if got {
			if m, err := c.Read(); string(m.Text) != row.text || err != nil {
				t.Errorf("got %s, %v", m.Text, err)
			}
		}
	}
}

// Once the session has responded to a request, the server can no longer cancel it.
func TestConnIgnoresCancellationOfAnsweredRequest(t *testing.T) {
	c := New(Options{Send: func(context.Context, transport.Message) error { return nil }})
	defer c.Close()
	request, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`))
	c.Take(&request)
	m, err := c.Read()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Reply.Answer(t.Context(), []byte(`{"jsonrpc":"2.0","id":7,"result":{}}`), nil); err != nil {
		t.Fatal(err)
	}
	cancelled, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`))
	if c.Take(&cancelled) {
		t.Error("the cancellation was taken")
	}
}

// The session does not respond to cancelled requests.
func TestConnForgetsCancelledRequests(t *testing.T) {
	c := New(Options{Send: func(context.Context, transport.Message) error { return nil }})
	defer c.Close()
	request, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"a"}}}}`))
	c.Take(&request)
	cancelled, _ := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`))
	if !c.Take(&cancelled) {
		t.Error("the cancellation was not taken")
	}
	if len(c.requests) > 0 {
		t.Errorf("the connection holds requests %v", c.requests)
	}
}

func TestConnAnswersInitialize(t *testing.T) {
	var sent []string
	c := New(Options{Initialize: json.RawMessage(`{"a":1}`), Send: func(_ context.Context, m transport.Message) error {
		sent = append(sent, string(m.Text))
		return nil
	}})
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":"p-1","method":"initialize"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":"p-2","method":"ping"}`,
	} {
		if err := c.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := c.Read(); string(m.Text) != `{"jsonrpc":"2.0","id":"p-1","result":{"a":1}}` || err != nil {
		t.Errorf("got %s, %v", m.Text, err)
	}
	if len(sent) != 1 || !strings.Contains(sent[0], "ping") {
		t.Errorf("sent %v", sent)
	}
	c.Close()
	if err := c.Write(t.Context(), transport.Message{Text: []byte(`{}`)}); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Read(); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestCreatedTask(t *testing.T) {
	for result, want := range map[string]string{
		`{"task":{"taskId":"a","status":"working"}}`:                              "a",
		`{"resultType":"task","taskId":"a","status":"working"}`:                   "a",
		`{"resultType":"complete","taskId":"a","content":[]}`:                     "",
		`{"content":[{"type":"text","text":"\"taskId\""}],"task":{"taskId":"a"}}`: "",
		`{"content":[],"structuredContent":{"taskId":"a"}}`:                       "",
		`{"task":{"taskId":1}}`:                                                   "",
		`{}`:                                                                      "",
	} {
		if got := CreatedTask(json.RawMessage(result)); got != want {
			t.Errorf("%s: got %q", result, got)
		}
	}
}

// roundTrip is an http.RoundTripper that returns a body.
type roundTrip struct{ media, body string }

func (r roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {r.media}, "Content-Length": {"1"}}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(r.body))),
	}, nil
}

func TestTapFiltersMessages(t *testing.T) {
	filter := func(_ string, text []byte) []byte {
		switch string(text) {
		case "drop", "two\nlines":
			return nil
		case "change":
			return []byte("changed")
		}
		return text
	}
	for _, row := range []struct{ name, media, body, want string }{
		{"JSON", "application/json", "change", "changed"},
		{"other JSON", "application/json; charset=utf-8", "keep", "keep"},
		{"other media", "text/plain", "change", "change"},
		{"events", "text/event-stream", "id: 1\ndata: change\n\ndata:keep\nid: 2\n\nid: 3\ndata: drop\n\n", "id: 1\ndata: changed\n\ndata:keep\nid: 2\n\nid: 3\n\n"},
		{"lines", "text/event-stream", "data: two\r\ndata: lines\r\nid: 1\r\n\r\ndata: keep\r\n\r\n", "id: 1\n\ndata: keep\r\n\r\n"},
		{"names", "text/event-stream", "event: other\ndata: drop\n\nevent: message\ndata: drop\n\n", "event: other\ndata: drop\n\nevent: message\n\n"},
		{"comments and empty events", "text/event-stream", ": ping\n\n\nretry: 5\n\nid: 1\ndata: \n\n", ": ping\n\n\nretry: 5\n\nid: 1\ndata: \n\n"},
		{"end", "text/event-stream", "data: keep\n\ndata: change\n", "data: keep\n\ndata: changed\n\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tap := &Tap{Base: roundTrip{row.media, row.body}, Filter: filter}
			r, _ := http.NewRequest(http.MethodPost, "http://localhost", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
			resp, err := tap.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if string(got) != row.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, row.want)
			}
		})
	}
}

// The other client opens and ends the session at the server.
func TestRoundTripperOpensNoSession(t *testing.T) {
	tripper := &RoundTripper{Base: roundTrip{"application/json", "from the server"}, Session: "secret", Initialize: json.RawMessage(`{"a":1}`)}
	for _, row := range []struct{ method, text, want string }{
		{"POST", `{"jsonrpc":"2.0","id":"p-1","method":"initialize"}`, `{"jsonrpc":"2.0","id":"p-1","result":{"a":1}}`},
		{"POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ``},
		{"POST", `{"jsonrpc":"2.0","id":"p-2","method":"ping"}`, `from the server`},
		{"GET", ``, `from the server`},
		{"DELETE", ``, ``},
		{"POST", `{"jsonrpc":"2.0","id":"p-3","method":"initialize"}`, `{"jsonrpc":"2.0","id":"p-3","error":{"code":-32600,"message":"the session of the other client has ended"}}`},
	} {
		r, _ := http.NewRequest(row.method, "http://localhost", strings.NewReader(row.text))
		resp, err := tripper.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		if string(got) != row.want {
			t.Errorf("%s %s: got %s", row.method, row.text, got)
		}
		if strings.Contains(row.want, `"a"`) && resp.Header.Get("Mcp-Session-Id") != "secret" {
			t.Error("no session id")
		}
	}
}
