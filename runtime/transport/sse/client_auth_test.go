package sse_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
)

// keeper is an Authorizer and a server that demands its newest token.
type keeper struct {
	mu       sync.Mutex
	demanded string
	token    string // of the Authorizer
	log      []string
}

func (k *keeper) Authorize(req *http.Request, op httpclient.Operation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	req.Header.Set("Authorization", k.token)
	k.log = append(k.log, req.Method+" "+req.URL.Path+" of "+op.Server.String()+" for "+op.Method+" with "+k.token)
	return nil
}

func (k *keeper) Challenged(context.Context, *http.Response, httpclient.Operation) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.token = k.demanded
	return true, nil
}

func (k *keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	resp := &http.Response{StatusCode: http.StatusAccepted, Header: http.Header{}, Body: http.NoBody, Request: req}
	switch {
	case req.Header.Get("Authorization") != k.demanded:
		resp.StatusCode = http.StatusUnauthorized
	case req.Method == http.MethodGet:
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.Close() })
		go io.WriteString(w, "event: endpoint\ndata: /messages?session=1\n\n") // ends when it is read
		resp.StatusCode, resp.Body = http.StatusOK, r
		resp.Header.Set("Content-Type", "text/event-stream")
	}
	return resp, nil
}

func TestClientAuthorizesEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{demanded: "first"}
		c, err := sse.Dial(t.Context(), "http://server/sse?key=1", httpclient.Options{HTTP: &http.Client{Transport: k}, Auth: k})
		if err != nil {
			t.Fatal(err)
		}
		k.mu.Lock()
		k.demanded = "second"
		k.mu.Unlock()
		if err := c.Write(t.Context(), transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)}); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		want := []string{
			// The first request is one for which a user may be asked.
			"GET /sse of http://server/sse for initialize with ", "GET /sse of http://server/sse for initialize with first",
			"POST /messages of http://server/sse for notifications/roots/list_changed with first",
			"POST /messages of http://server/sse for notifications/roots/list_changed with second",
		}
		if !slices.Equal(k.log, want) {
			t.Errorf("requests %q, want %q", k.log, want)
		}
	})
}
