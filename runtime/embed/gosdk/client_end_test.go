package gosdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/must"
	wire "github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/joined/joinedtest"
	"github.com/mcpwire/mcpwire/runtime/session"
	wiretransport "github.com/mcpwire/mcpwire/runtime/transport"
)

// Over HTTP in 2026-07-28, the server does not report the end of the session of the SDK to the
// joined session.
func TestTaskRequestsFailAfterSessionEnds(t *testing.T) {
	s := joinedtest.NewServer()
	defer s.Close()
	web := httptest.NewServer(must.Get(s.Handler(nil)))
	defer web.Close()
	c, err := Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Session.Close(); err != nil {
		t.Fatal(err)
	}
	<-c.inputs.done // closed after the joined session
	if _, err := c.Invoke(t.Context(), &mcp.CallToolParams{Name: "plain"}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// brokenConn is a connection that cannot be read.
type brokenConn struct{ mcp.Connection }

func (brokenConn) Read(context.Context) (jsonrpc.Message, error) { return nil, io.ErrUnexpectedEOF }

func TestFailedReadClosesJoinedConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := newSharing()
		conn := joined.New(joined.Options{Send: func(context.Context, wiretransport.Message) error { return nil }})
		shared.conn.Store(conn)
		got := make(chan error, 1)
		go func() { // ends with conn
			_, err := conn.Read()
			got <- err
		}()
		if _, err := (&clientConn{brokenConn{}, shared}).Read(t.Context()); err != io.ErrUnexpectedEOF {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		conn.Close()
		if err := <-got; !errors.Is(err, wiretransport.ErrClosed) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCancelledInputRequestEndsHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan bool, 1)
		release := make(chan struct{})
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				select {
				case <-ctx.Done():
					cancelled <- true
				case <-release:
				}
				return &mcp.ElicitResult{Action: "decline"}, nil
			},
		})
		s, err := newInputSession(t.Context(), client, new(wire.InitializeResult))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() { // ends with ctx
			_, err := s.request(ctx, wire.MethodElicitationCreate, []byte(`{"message":"?","requestedSchema":{"type":"object"}}`))
			got <- err
		}()
		synctest.Wait()
		stop := errors.New("stop")
		cancel(stop)
		if err := <-got; err != stop {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if len(cancelled) != 1 {
			t.Error("the handler was not cancelled")
		}
		close(release)
		s.close()
	})
}

// longResponse responds to each POST with a result whose text has this number of bytes.
type longResponse int

func (n longResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody, Request: r}, nil
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r, ContentLength: -1,
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{"text":"` + strings.Repeat("a", int(n)) + `"}}`)),
	}, nil
}

func TestMaxEventSizeLimitsTaskResponses(t *testing.T) {
	for _, row := range []struct {
		limit, size int
		accepted    bool
	}{
		{1000, 2000, false}, {1000, 500, true}, {0, wiretransport.DefaultMaxMessage, false}, {-1, wiretransport.DefaultMaxMessage, true},
	} {
		_, open := newSharing().httpTransport(&mcp.StreamableClientTransport{
			Endpoint: "http://example.com", HTTPClient: &http.Client{Transport: longResponse(row.size)}, MaxEventSize: row.limit,
		})
		conn, err := open(new(mcp.ClientSession))
		if err != nil {
			t.Fatal(err)
		}
		request := wirerpc.NewRequest(codec.IntScalar(1), wire.MethodTasksGet, nil)
		text, err := request.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), wiretransport.Message{Text: text}); err != nil {
			t.Fatal(err)
		}
		m, err := conn.Read()
		response, _ := m.Parse()
		if got := err == nil && len(response.Result) > row.size; got != row.accepted {
			t.Errorf("limit %d, %d bytes: got %d bytes, %v", row.limit, row.size, len(response.Result), err)
		}
		conn.Close()
	}
}
