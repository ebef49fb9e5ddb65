package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// via is where a requestor is: at the other end of a session and, while it waits in tasks/result, on
// the way that this request came.
type via struct {
	s   *session.Session
	req *session.Request // nil unless it waits
}

// Call sends a question. The context is that of tasks/result, so that the question goes where the
// requestor waits. It may take as long as people take to answer: until the task expires.
func (v via) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	result, err := v.s.With(session.Timeout(0)).Call(ctx, method, params)
	if err == nil || unanswered(ctx, err) {
		return result, err
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return nil, e
	}
	code := int64(jsonrpc.CodeInternalError)
	if _, lacking := errors.AsType[*session.CapabilityError](err); lacking {
		code = jsonrpc.CodeMethodNotFound
	}
	// Sending it again would not help: the input request fails, as it does in a plain call.
	return nil, &jsonrpc.Error{Code: code, Message: err.Error()}
}

// Supports implements [task.Capable].
func (v via) Supports(method string) bool { return v.s.PeerServes(method) }

// unanswered reports whether an input request has failed because the requestor, or the connection
// to it, is gone.
func unanswered(ctx context.Context, err error) bool {
	_, undelivered := errors.AsType[*transport.DeliveryError](err)
	return ctx.Err() != nil || undelivered || errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotInitialized)
}

// Notify sends a notification: with what the requestor waits for, else on its own. The request that
// created the task has long been answered.
func (v via) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return v.s.Notify(v.context(ctx), method, params)
}

func (v via) context(ctx context.Context) context.Context {
	if v.req != nil {
		return session.NewContext(ctx, v.req)
	}
	return apart{ctx}
}

// apart is a context that belongs to no request.
type apart struct{ context.Context }

func (a apart) Value(key any) any {
	v := a.Context.Value(key)
	if _, ok := v.(*session.Request); ok {
		return nil
	}
	return v
}

// relate is the middleware that marks what is sent about a task as its own: also what its work sends
// past the peer of its context.
func relate(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if id := sender(ctx); id != "" && !strings.HasPrefix(call.Method, "tasks/") {
			call.SetMeta(task.RelatedTask, &mcp.RelatedTaskMetadata{TaskID: id})
		}
		return next(ctx, call)
	}
}

// sender returns the task on whose behalf something is sent, or "".
func sender(ctx context.Context) string {
	if run, ok := task.FromContext(ctx); ok {
		return run.ID()
	}
	return ""
}
