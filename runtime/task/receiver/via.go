package receiver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// via reaches a requestor through its session. While the requestor waits in tasks/result, messages
// are sent as part of that request.
type via struct {
	s   *session.Session
	req *session.Request // tasks/result; nil if the requestor does not wait
}

// Call sends an input request. ctx is that of tasks/result, so that the input request is sent on
// the same stream. Call has no timeout, because users may take long to answer; it ends with the
// task.
func (v via) Call(ctx context.Context, method string, params codec.Encoder) (json.RawMessage, error) {
	result, err := v.s.With(session.Timeout(0)).Call(ctx, method, params)
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		if e.Code == session.CodeClosing {
			return nil, errClosing
		}
		return nil, e
	}
	if err == nil || unanswered(ctx, err) {
		return result, err
	}
	code := int64(jsonrpc.CodeInternalError)
	if _, missing := errors.AsType[*session.CapabilityError](err); missing {
		code = jsonrpc.CodeMethodNotFound
	}
	// A retry would fail, too: the input request fails, as it does in a plain call.
	return nil, &jsonrpc.Error{Code: code, Message: err.Error()}
}

// errClosing is returned if the requestor has shut its session down before its user or model has
// answered. The task waits for the next session of the requestor.
var errClosing = errors.New("receiver: requestor shut down its session")

// Supports implements [task.Capable].
func (v via) Supports(method string) bool { return v.s.PeerServes(method) }

// unanswered reports whether an input request has failed because the requestor has disconnected.
func unanswered(ctx context.Context, err error) bool { return ctx.Err() != nil || disconnected(err) }

// disconnected reports whether a message could not be sent because the requestor has disconnected.
func disconnected(err error) bool {
	_, undelivered := errors.AsType[*transport.DeliveryError](err)
	return undelivered || errors.Is(err, session.ErrClosed) || errors.Is(err, session.ErrNotInitialized)
}

// Notify sends a notification, on the stream of tasks/result if there is one. Otherwise the
// notification belongs to no request, because the one that created the task has already been
// answered.
func (v via) Notify(ctx context.Context, method string, params codec.Encoder) error {
	return v.s.Notify(v.context(ctx), method, params)
}

func (v via) context(ctx context.Context) context.Context {
	if v.req != nil {
		return v.req.Internals(boundary.Caller{}).NewContext(ctx)
	}
	return detached{ctx}
}

// detached is a context that belongs to no request.
type detached struct{ context.Context }

func (d detached) Value(key any) any {
	v := d.Context.Value(key)
	if _, ok := v.(*session.Request); ok {
		return nil
	}
	return v
}

// Relate is relate.
func (internals) Relate(next session.Sender) session.Sender { return relate(next) }

// relate is the sending middleware of [Attach]. It adds the related task to messages of work,
// including those that the work sends through the session directly. It is safe for concurrent use.
func relate(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		if id := taskID(ctx); id != "" && !strings.HasPrefix(call.Method, "tasks/") {
			call.SetMeta(taskrules.RelatedTask, &mcp.RelatedTaskMetadata{TaskID: id})
		}
		return next(ctx, call)
	}
}

// taskID returns the id of the task whose work has the context ctx, or "".
func taskID(ctx context.Context) string {
	if run, ok := task.FromContext(ctx); ok {
		return run.ID()
	}
	return ""
}
