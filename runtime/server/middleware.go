package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
)

// ToolHandler serves calls of a tool. Middleware is a function that gets one and returns another:
// it may replace the arguments in the request, the result and the error, and need not call next. It
// is called once when a feature is added or changed; the function that it returns is called for every
// request and must be safe for concurrent use.
//
//	func timed(next server.ToolHandler) server.ToolHandler {
//		return func(ctx context.Context, c *server.Call, r *server.ToolRequest) (*mcp.CallToolResult, error) {
//			defer func(start time.Time) { slog.Info("tool called", "tool", r.Tool.Name, "took", time.Since(start)) }(time.Now())
//			return next(ctx, c, r)
//		}
//	}
//
// A request passes, in this order:
//
//   - the middleware of [session.Hooks].Receiving, which sees all methods and raw params,
//   - the creation of a task, if it asks for one: the rest runs as the work of the task, and again
//     when a task is recovered,
//   - the visibility of the feature, see [VisibleTo],
//   - the middleware in [Options], the first one outermost,
//   - the middleware of the feature, see [WrapTool], [WrapPrompt] and [WrapResource],
//   - the validation of the arguments,
//   - the function of the feature,
//   - the validation of its output. A result that passes through middleware is validated again
//     before it is sent.
//
// Middleware therefore sees arguments as the client has sent them, and the outcome of validation: a
// result with isError if the arguments of a tool do not comply with its schema, and an error if
// other arguments or the output are invalid. It sees an error of a tool's function unchanged. Such
// an error, or one of middleware, becomes a result with isError after that, unless it is a
// [*jsonrpc.Error].
type ToolHandler = func(ctx context.Context, c *Call, r *ToolRequest) (*mcp.CallToolResult, error)

// PromptHandler serves requests for a prompt. Middleware is as for a [ToolHandler].
type PromptHandler = func(ctx context.Context, c *Call, r *PromptRequest) (*mcp.GetPromptResult, error)

// ResourceHandler serves requests to read a resource. Middleware is as for a [ToolHandler].
type ResourceHandler = func(ctx context.Context, c *Call, r *ResourceRequest) (*mcp.ReadResourceResult, error)

// StepMiddleware wraps the function of a [Step] or of [Compensate] each time it runs. It calls next
// once, with a context derived from ctx, and returns its error. A step whose recorded result is
// used again does not run.
type StepMiddleware func(ctx context.Context, c *Call, name string, next func(ctx context.Context) error) error

// wrapStep returns f with the middleware of the configuration.
func wrapStep[T any](c *Call, name string, f func(ctx context.Context) (T, error)) func(ctx context.Context) (T, error) {
	all := c.p.s.cfg.Middleware.Steps
	if len(all) == 0 || f == nil {
		return f
	}
	return func(ctx context.Context) (result T, err error) {
		next := func(ctx context.Context) (err error) {
			result, err = f(ctx)
			return err
		}
		for _, m := range slices.Backward(all) {
			inner := next
			next = func(ctx context.Context) error { return m(ctx, c, name, inner) }
		}
		err = next(ctx)
		return result, err
	}
}

// wrapUndo is wrapStep for the function of [Compensate].
func wrapUndo(c *Call, name string, f func(ctx context.Context) error) func(ctx context.Context) error {
	if len(c.p.s.cfg.Middleware.Steps) == 0 || f == nil {
		return f
	}
	wrapped := wrapStep(c, name, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return func(ctx context.Context) error {
		_, err := wrapped(ctx)
		return err
	}
}

// ToolRequest is a call of a tool.
type ToolRequest struct {
	Tool      *mcp.Tool       // the description of the tool; must not be changed
	Arguments json.RawMessage // a JSON object; the bytes must not be changed
}

// PromptRequest is a request for a prompt.
type PromptRequest struct {
	Prompt    *mcp.Prompt // the description of the prompt; must not be changed
	Arguments map[string]string
}

// ResourceRequest is a request to read a resource. It must not be changed.
type ResourceRequest struct {
	URI string
	// Vars are the variables of the template, see [Resource].
	Vars url.Values
	// Resource is the description of a resource with a fixed URI, or nil.
	Resource *mcp.Resource
	// Template is the description of the template that the URI matches, or nil.
	Template *mcp.ResourceTemplate
}

// WrapTool adds middleware to one tool, the first one outermost. [Middleware.Tools] is for all
// tools.
func WrapTool(m ...func(next ToolHandler) ToolHandler) ToolOption {
	return toolOption(func(t *tool) { t.middleware = append(t.middleware, m...) })
}

// WrapPrompt adds middleware to one prompt, the first one outermost. [Middleware.Prompts] is
// for all prompts.
func WrapPrompt(m ...func(next PromptHandler) PromptHandler) PromptOption {
	return promptOption(func(p *prompt) { p.middleware = append(p.middleware, m...) })
}

// WrapResource adds middleware to one resource, or to the resources of one template, the first one
// outermost. [Middleware.Resources] is for all resources.
func WrapResource(m ...func(next ResourceHandler) ResourceHandler) interface {
	ResourceOption
	TemplateOption
} {
	return wrapResource(m)
}

type wrapResource []func(next ResourceHandler) ResourceHandler

func (m wrapResource) forResource(r *resource) { r.middleware = append(r.middleware, m...) }
func (m wrapResource) forTemplate(t *template) { t.middleware = append(t.middleware, m...) }

// wrap returns a handler that calls the middleware of the configuration, then that of the feature,
// then inner. It returns nil if there is no middleware.
func wrap[H interface {
	ToolHandler | PromptHandler | ResourceHandler
}](all, own []func(next H) H, inner H) (H, error) {
	if len(all)+len(own) == 0 {
		return nil, nil
	}
	next := inner
	for _, list := range [][]func(next H) H{own, all} {
		for i := len(list) - 1; i >= 0; i-- {
			if list[i] == nil {
				return nil, errors.New("nil middleware")
			}
			if next = list[i](next); next == nil {
				return nil, errors.New("middleware returned a nil function")
			}
		}
	}
	return next, nil
}
