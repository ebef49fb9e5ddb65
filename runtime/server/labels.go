package server

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// RequireLabels leaves the tasks of the tool to those processes of a fleet that have all labels in
// [task.Member].Labels of [Options].Tasks; see [task.Request].Labels. If the option is used several
// times, all labels are required. It needs [Durable], or [Tasks] with a Restartable
// [receiver.Support], and has no effect if the store of the tasks is not shared.
//
// A call of a client with the Tasks extension is a task from its beginning. A plain call runs in
// the process that gets it, and is rejected there if that process lacks a label.
func RequireLabels(labels ...string) ToolOption {
	return toolOption(func(t *tool) { t.labels = append(t.labels, labels...) })
}

// RequireLabelsFor requires labels that depend on the arguments of a call, in addition to those of
// [RequireLabels]. The labels of a task are those of the call that creates it. The arguments are a
// JSON object as the client has sent it, without defaults, which may not be valid. f must be fast
// and safe for concurrent use, and may be called more than once for a call. It must not modify the
// arguments. If the labels are invalid (see [task.Member]) or f panics, the call is rejected.
func RequireLabelsFor(f func(ctx context.Context, arguments json.RawMessage) []string) ToolOption {
	if f == nil {
		return nil
	}
	return toolOption(func(t *tool) { t.labelsFor = append(t.labelsFor, f) })
}

// supportFor returns the task support of a call with the given params. It fails as requiredLabels
// does.
func (t *tool) supportFor(ctx context.Context, s *Server, params json.RawMessage) (receiver.Support, error) {
	support := t.support
	if len(t.labelsFor) == 0 {
		return support, nil
	}
	var err error
	support.Labels, err = t.requiredLabels(ctx, s, callArguments(params))
	return support, err
}

// requiredLabels returns the labels that a call with the given arguments needs. If they are
// invalid, it logs that and returns an error, too.
func (t *tool) requiredLabels(ctx context.Context, s *Server, arguments json.RawMessage) ([]string, error) {
	if len(t.labelsFor) == 0 {
		return t.support.Labels, nil
	}
	labels := t.support.Labels
	for _, f := range t.labelsFor {
		labels = together(labels, f(ctx, arguments))
	}
	_, err := taskrules.LabelSet(labels)
	if err != nil {
		s.cfg.Logger.Error("invalid labels", "tool", t.def.Name, "error", err)
		err = internalError("RequireLabelsFor of the tool: %s", err)
	}
	return labels, err
}

// checkLabels returns an error if this process lacks a label that a plain call needs. The labels of
// a task are in its record.
func (t *tool) checkLabels(ctx context.Context, c *Call, arguments json.RawMessage) error {
	labels, err := t.requiredLabels(ctx, c.p.s, arguments)
	if err != nil || len(labels) == 0 {
		return err
	}
	tasks := c.p.s.Tasks()
	if tasks == nil {
		return noTasks()
	}
	if label := tasks.Internals(boundary.Caller{}).Lacks(labels...); label != "" {
		return &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("tool %q needs the label %q, which this process does not have: call it as a task", t.def.Name, label),
		}
	}
	return nil
}
