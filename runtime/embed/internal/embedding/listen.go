package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// Limits of the subscriptions of a principal, and of the tasks that they name.
const (
	maxWatched      = 1000
	maxWatchedBytes = 1 << 20
)

// listener reports changes of tasks to a subscription.
type listener struct {
	e         *Engine
	id        mcp.NotificationMetaObject // the _meta of its notifications
	principal string
	size      modern.Size
	send      func(ctx context.Context, method string, params json.RawMessage) error
	watch     taskrules.Watch[task.Record]
	known     []string
	changes   *modern.Changes[string] // ids of tasks
}

// listen serves the tasks of a subscriptions/listen. The SDK serves its other subscriptions.
func (e *Engine) listen(ctx context.Context, m *task.Manager, in *Incoming) (Outcome, error) {
	filter, _ := codec.Member(in.Params, "notifications")
	list, ok := codec.Member(filter, "taskIds")
	if !ok || in.Send == nil {
		return Outcome{}, errPlain
	}
	ids, err := receiver.Internals(boundary.Caller{}).WatchedIDs(new(session.Request).Internals(boundary.Caller{}).Stored(in.ID, in.Method, in.Params, in.Revision), list)
	if err != nil {
		return Outcome{}, err
	}
	l, err := e.newListener(ctx, m, in, ids)
	if err != nil {
		return Outcome{}, err
	}
	if subscribesTo(filter) {
		until := new(lazyctx.Cancellable)
		stopped := make(chan struct{})
		both := lazyctx.WithBoth(ctx, until)
		go func() { // ends with the request, with Stop, or with the Engine
			defer close(stopped)
			defer l.close()
			defer both.Release()
			l.run(both)
		}()
		stop := func() {
			until.Cancel(nil)
			<-stopped
		}
		return Outcome{TaskIDs: l.known, Stop: stop}, nil
	}
	defer l.close()
	if err := l.acknowledge(ctx); err != nil {
		return Outcome{}, err
	}
	if err := l.run(ctx); err != nil {
		return Outcome{}, err
	}
	return Outcome{Handled: true, Result: &mcp.SubscriptionsListenResult{
		Meta: mcp.SubscriptionsListenResultMetaObject{SubscriptionID: in.ID}, ResultType: modern.ResultComplete,
	}}, nil
}

// subscribesTo reports whether a filter has subscriptions other than those of tasks.
func subscribesTo(filter json.RawMessage) (other bool) {
	codec.ReadPart(filter, func(r *wire.Reader) {
		r.Object()
		for name, more := r.NextKey(); more; name, more = r.NextKey() {
			isTasks := string(name) == "taskIds"
			switch text := r.RawBytes(); {
			case isTasks, string(text) == "false", string(text) == "null", string(text) == "[]":
			default:
				other = true
			}
		}
	})
	return other
}

func (e *Engine) newListener(ctx context.Context, m *task.Manager, in *Incoming, ids []string) (*listener, error) {
	l := &listener{
		e: e, id: mcp.NotificationMetaObject{SubscriptionID: in.ID}, principal: strings.Clone(in.Principal), send: in.Send,
		size: modern.Size{Count: 1 + len(ids)}, changes: modern.NewChanges(strings.Compare),
	}
	for _, id := range ids {
		l.size.Bytes += len(id)
	}
	if err := e.watched.Reserve(l.principal, l.size); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the limit of tasks in subscriptions is reached"}
	}
	watch, known, err := m.Internals(boundary.Caller{}).Watch(ctx, l.principal, ids, l.changes.Add)
	if err != nil {
		e.watched.Release(l.principal, l.size)
		return nil, task.WireError(err)
	}
	l.watch, l.known = watch, append([]string{}, known...)
	return l, nil
}

func (l *listener) close() {
	l.watch.Close()
	l.e.watched.Release(l.principal, l.size)
}

func (l *listener) acknowledge(ctx context.Context) error {
	p := &mcp.SubscriptionsAcknowledgedNotificationParams{Meta: &l.id}
	ids, err := codec.Marshal(value.Of(l.known))
	if err != nil {
		return err
	}
	p.Notifications.Extra.Set("taskIds", ids)
	return l.notify(ctx, mcp.MethodNotificationsSubscriptionsAcknowledged, p)
}

func (l *listener) notify(ctx context.Context, method string, params codec.Encoder) error {
	text, err := codec.Marshal(params)
	if err != nil {
		return err
	}
	return l.send(ctx, method, text)
}

// run reports changes until the request ends, or the Engine closes. It returns the cause of ctx if
// the request has ended, and nil if the Engine has closed.
func (l *listener) run(ctx context.Context) error {
	for {
		select {
		case <-l.changes.Added():
			for _, id := range l.changes.Take() {
				if err := l.report(ctx, id); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.e.lifetime.Done():
			return nil
		}
	}
}

// report reports the state of a task.
func (l *listener) report(ctx context.Context, id string) error {
	state := receiver.Internals(boundary.Caller{}).WatchedTask(ctx, l.watch, id, &l.id)
	if state == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := l.notify(ctx, tasks.MethodNotificationsTasks, state)
	if errors.Is(err, errStreamClosed) || errors.Is(err, errNoEvents) {
		return context.Canceled
	}
	return err
}
