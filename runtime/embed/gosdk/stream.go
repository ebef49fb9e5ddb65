package gosdk

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpwire/mcpwire/codec"
	wirerpc "github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// getStream is the response to a GET request of a session.
type getStream struct {
	*embedding.Stream
	opened func() // called when the response is the event stream of the session
}

// WriteHeader implements [http.ResponseWriter].
func (s getStream) WriteHeader(status int) {
	s.Stream.WriteHeader(status)
	if status == http.StatusOK && strings.HasPrefix(s.Header().Get("Content-Type"), "text/event-stream") {
		s.opened()
	}
}

// serveGET serves a GET request. If it opens the stream of a session, the stream also carries
// notifications that the SDK cannot send.
func (t *Tasks) serveGET(h http.Handler, w http.ResponseWriter, r *http.Request) {
	id, last := r.Header.Get("Mcp-Session-Id"), r.Header.Get("Last-Event-Id")
	if id == "" || last != "" && !strings.HasPrefix(last, "_") { // the request resumes another stream
		h.ServeHTTP(w, r)
		return
	}
	s := embedding.NewStream(w)
	defer func() {
		t.mu.Lock()
		if t.streams[id] == s {
			delete(t.streams, id)
		}
		t.mu.Unlock()
		s.Close()
	}()
	h.ServeHTTP(getStream{s, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.streams[id] = s
	}}, r)
}

// send sends a notification on the GET stream of a session.
func (t *Tasks) send(ctx context.Context, session, method string, params json.RawMessage) error {
	t.mu.Lock()
	s := t.streams[session]
	t.mu.Unlock()
	if s == nil {
		return mcp.ErrConnectionClosed
	}
	return s.Send(ctx, method, params)
}

// listen lets the SDK serve a subscription that also names tasks. It returns when the request ends.
func (k *ticket) listen(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
	defer k.stop()
	if k.stream != nil {
		k.stream.Acknowledge(k.taskIDs)
	}
	result, err := next(ctx, method, req)
	if err == nil {
		<-ctx.Done() // the SDK returns at once if it has nothing to send
	}
	return result, err
}

// subscription returns the id of the subscription that a notification belongs to.
func subscription(params json.RawMessage) (id wirerpc.ID) {
	meta, _ := codec.Member(params, "_meta")
	raw, _ := codec.Member(meta, modern.MetaSubscription)
	if json.Unmarshal(raw, &id) != nil {
		return wirerpc.ID{}
	}
	return id
}
