package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// path is a Reply that records what is sent. Its Send fails with broken.
type path struct {
	sent   []string
	broken error
}

func (p *path) Send(_ context.Context, text []byte) error {
	p.sent = append(p.sent, string(text))
	return p.broken
}

func (p *path) Answer(_ context.Context, text []byte, failed *jsonrpc.Error) error {
	code := int64(0)
	if failed != nil {
		code = failed.Code
	}
	p.sent = append(p.sent, fmt.Sprintf("answer %d %s", code, text))
	return nil
}

// A transport of others serves modern requests with a context and a Reply of its own.
func TestResponderAnswersThroughReply(t *testing.T) {
	gone := errors.New("the client has gone")
	responder := newResponder(&session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		peer, _ := session.PeerFrom(ctx)
		if req.Method == "custom/wait" {
			if err := peer.Notify(ctx, "custom/event", nil); err == nil {
				t.Error("no error of Notify")
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, peer.Notify(ctx, "custom/event", nil)
	}})
	defer responder.Close()
	const event = `{"jsonrpc":"2.0","method":"custom/event"}`
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	for _, test := range []struct {
		name, text string
		ctx        context.Context
		broken     error
		want       []string
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"custom/call","params":{` + modernMeta + `}}`, nil, nil,
			[]string{event, `answer 0 {"jsonrpc":"2.0","id":1,"result":{}}`}},
		{"client does not receive notifications", `{"jsonrpc":"2.0","id":1,"method":"custom/wait","params":{` + modernMeta + `}}`, nil, gone,
			[]string{event, `answer -32603 {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the client has gone"}}`}},
		{"client gone", `{"jsonrpc":"2.0","id":1,"method":"custom/wait","params":{` + modernMeta + `}}`, ended, gone,
			[]string{event, `answer -32603 {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the client has gone"}}`}},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`, nil, nil,
			[]string{`answer -32601 {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found: ping"}}`}},
		{"rejected notification", `{"jsonrpc":"2.0","method":"notifications/initialized","params":{` + modernMeta + `}}`, nil, nil,
			[]string{`answer -32601 `}},
		{"invalid", `{"jsonrpc":"1.0","id":1,"method":"custom/call"}`, nil, nil,
			[]string{`answer -32600 {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := &path{broken: test.broken}
			responder.Receive(transport.Message{Text: []byte(test.text), Context: test.ctx, Reply: to})
			if !slices.EqualFunc(to.sent, test.want, strings.HasPrefix) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(test.want, to.sent))
			}
		})
	}
}

// newResponder returns a Responder with a configuration.
func newResponder(cfg *session.Options) responder {
	return cfg.Internals(boundary.Caller{}).NewResponder()
}

type responder interface {
	transport.Responder
	Shutdown(context.Context) error
	Close() error
}

// with returns the configuration of a session with a Responder.
func with(r responder, cfg session.Options) *session.Options {
	cfg.Internals(boundary.Caller{}).Responder = r
	return &cfg
}
