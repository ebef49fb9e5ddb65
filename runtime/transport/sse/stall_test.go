package sse_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// stalledServer is a server that opens streams and accepts no message.
type stalledServer struct{}

func (s stalledServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body, out := io.Pipe()
	context.AfterFunc(r.Context(), func() { out.Close() })
	go io.WriteString(out, "event: endpoint\ndata: /post\n\n") // ends with the stream
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// If the server accepts no messages, the connection fails. The loss of answers would otherwise be
// silent.
func TestConnectionFailsIfServerAcceptsNoMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sse.Dial(t.Context(), "http://server/sse", httpclient.Options{HTTP: &http.Client{Transport: stalledServer{}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 2 {
			if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","id":1,"result":{}}`)}); err != nil {
				t.Error(err)
			}
		}
		for {
			_, err := c.Read()
			if _, lost := errors.AsType[*transport.DeliveryError](err); lost {
				continue
			}
			if !errors.Is(err, transport.ErrClosed) || !errors.Is(err, transport.ErrStalled) {
				t.Errorf("got %v, want the end of the connection because the server has stalled", err)
			}
			return
		}
	})
}
