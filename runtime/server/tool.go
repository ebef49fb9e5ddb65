package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// ToolFunc is a Go function that serves calls of a tool. Its arguments have been validated against
// the schema of the tool. An error becomes a result with isError and the text of the error, for the
// model to read. A [*jsonrpc.Error] is sent as the error response instead. The same function serves
// plain calls and tasks; ctx ends when the call is cancelled.
type ToolFunc[In, Out any] func(ctx context.Context, c *Call, in In) (Out, error)

// ToolOption is an option of [AddTool] and [Server.AddRawTool]: [DefineTool], [DefineToolFor],
// [DefineType], [Durable], [Tasks], [MaxRunning], [RequireLabels], [RequireLabelsFor],
// [RequireScopes], [RequireScopesFor], [VisibleTo], [WrapTool] or several of them as [ToolOptions].
type ToolOption interface{ forTool(*tool) }

type toolOption func(*tool)

func (f toolOption) forTool(t *tool) { f(t) }

// DefineTool sets members of the tool's description that [AddTool] has no argument for, such as the
// title, annotations, icons, _meta and schemas. F receives the description with the name and the
// description of the call. It must not change the name.
func DefineTool(f func(*mcp.Tool)) ToolOption {
	if f == nil {
		return nil
	}
	return toolOption(func(t *tool) { f(&t.def) })
}

// DefineToolFor sets members of the tool's description for each caller of tools/list, for example
// in the caller's language. F receives a copy of the description, which shares its lists and
// objects with the original: f may replace them, but must not modify them. The name stays as it is.
// Calls are validated against the original schemas. F may be called by several goroutines at once.
func DefineToolFor(f func(c *Call, def *mcp.Tool)) ToolOption {
	if f == nil {
		return nil
	}
	return toolOption(func(t *tool) {
		t.tailored = true
		if first := t.defineFor; first != nil {
			second := f
			t.defineFor = func(c *Call, def *mcp.Tool) { first(c, def); second(c, def) }
			return
		}
		t.defineFor = f
	})
}

// ToolOptions combines options into one, for functions that return an option.
func ToolOptions(options ...ToolOption) ToolOption {
	if slices.Contains(options, nil) {
		return nil
	}
	return toolOption(func(t *tool) {
		for _, o := range options {
			o.forTool(t)
		}
	})
}

// Durable lets clients call the tool as a task that survives a restart of the server: the next
// process runs the function again, from its start, with the same arguments. What the function has
// done in a [Step], waited for in [Sleep] or asked the user for is not done again: it is in the
// journal of the task. Everything else happens in each run. If the end of the server interrupts a
// Step, a Sleep or an input request, the function runs again whatever it returns. It needs
// a Store in [Options].Tasks. It is short for [Tasks] with a Restartable [receiver.Support].
//
// In revisions without sessions, the call of a client that has declared the Tasks extension becomes
// a task before its first Step, Sleep or input request, however short it is. If the task cannot be
// stored, that operation fails, before it has any effect. The call of another client is a plain
// one: what it has done travels with the client, see [Shared.StateKeys], and expires after
// [Limits.InputTimeout].
//
// The function must run the steps and make the input requests that the journal has, in any order;
// see [Step]. If you change them, change the [Version], too. Once a run has recorded something, the
// arguments are not validated again in later runs, unless the tool has middleware. Log messages of a
// run are dropped as long as it repeats earlier ones.
func Durable() ToolOption { return Tasks(receiver.Support{Restartable: true}) }

// Version names the version of the function of a tool. A task that a function of another version
// began waits for a process with that version, unless that version is in accepted: then this
// function continues from its journal. Meanwhile, the status message of the task names the version.
// A task that has not begun begins in the version of the process that runs it. A call in a revision
// without sessions that waits for input fails in another version, with the request that has the
// responses. By default, the version is "". The version of [New] has no effect on tasks and calls.
func Version(version string, accepted ...string) ToolOption {
	return toolOption(func(t *tool) { t.version, t.accepted = version, accepted })
}

// Tasks lets clients call the tool as a task, and sets how such a task runs; see
// [receiver.Support]. With the Tasks extension, the server makes a task of a call that takes longer
// than After of the Support. The zero Mode means optional. It needs a Store in [Options].Tasks.
// Without the option, the Execution of the tool's description says whether the tool can be called
// as a task. The default is that it cannot.
func Tasks(support receiver.Support) ToolOption {
	support.Mode = cmp.Or(support.Mode, mcp.TaskSupportOptional)
	return toolOption(func(t *tool) { t.support = support })
}

// MaxRunning limits how many calls of the tool run at once. The limit holds for all processes of a
// fleet together, and for this process if the store of the tasks is not shared. Further tasks wait
// without a goroutine; see [task.Options].Limits.Tool. Further plain calls wait, too, until the
// client cancels them. The principals that wait have turns. A call with the Tasks extension is a
// task from its beginning. It needs a Store in [Options].Tasks.
func MaxRunning(n int) ToolOption {
	return toolOption(func(t *tool) { t.limited, t.maxRunning = true, n })
}

// tool is a tool of a server. It is immutable.
type tool struct {
	common
	def     mcp.Tool
	support receiver.Support
	// scopesFor are of the option RequireScopesFor.
	scopesFor []func(context.Context, json.RawMessage) []string
	// labels and labelsFor are of the options RequireLabels and RequireLabelsFor.
	labels    []string
	labelsFor []func(context.Context, json.RawMessage) []string
	// version is that of the function, and accepted are others that it continues from.
	version  string
	accepted []string
	// limited is set by the option MaxRunning, which also sets maxRunning.
	limited    bool
	maxRunning int
	types      []TypeDefinition // of the options
	in         *schemas.Input
	out        *schemas.Output // nil if the tool has no output schema
	fields     []modern.Field  // the arguments that clients over HTTP repeat in header fields
	plain      bool            // its function returns output that is not an object
	call       ToolFunc[json.RawMessage, *mcp.CallToolResult]
	// defineFor changes the description for a caller. It is nil if all callers have the same.
	defineFor func(c *Call, def *mcp.Tool)
	// wrapped calls the middleware, then serve. It is nil if there is no middleware.
	wrapped    ToolHandler
	middleware []func(next ToolHandler) ToolHandler // of the option WrapTool
	// decode decodes arguments without calling the tool. It is nil for a tool that takes JSON; such
	// a tool has no defaults.
	decode func(json.RawMessage) error
}

// AddTool adds a tool whose calls f serves. The description tells the model what the tool is for;
// [DefineTool] sets the other members of the tool's description. In is a struct, or a map with
// string keys. Its schema is inferred unless the description has one, see [SchemaFor]. Absent
// members get their defaults from the schema before f is called, also in objects and lists within
// the arguments (keywords properties, additionalProperties and items). Members that the client has
// sent are never changed. Out is one of
//
//   - a struct, a pointer to one, or such a map: it becomes the structured output, and a text block
//     with the same JSON; the output schema is inferred, too, and the output is validated against it,
//   - a slice, an array, a number, a boolean, or a type that is encoded as one of these or as a
//     string, such as [time.Time]: the same, but in sessions in the member result of an object,
//     because their revisions want objects; the text block has the JSON without this object,
//   - string, [mcp.ContentBlock] or [][mcp.ContentBlock]: it becomes the content,
//   - [*mcp.CallToolResult]: it is the result; if the description has an output schema, structured
//     output must comply with it. In sessions, structured output must be a JSON object; if the schema
//     is not that of an object, both become the member result of one. If the result has no content,
//     clients of revisions without structured output get it as a text block.
//
// It is a fault if the protocol does not admit a schema, the name or the description, or if there is a
// tool of that name ([ErrExists]): the tool is not added, and the server does not start; see
// [Handle.Err].
func AddTool[In, Out any](s *Server, name, description string, f ToolFunc[In, Out], options ...ToolOption) *Handle[mcp.Tool] {
	h, err := addTool(s, mcp.Tool{Name: name, Description: optional(description)}, f, options)
	return added(s, h, err)
}

func addTool[In, Out any](s *Server, def mcp.Tool, f ToolFunc[In, Out], options []ToolOption) (*Handle[mcp.Tool], error) {
	if s == nil {
		return nil, errNoServer
	}
	if f == nil {
		return nil, fmt.Errorf("server: tool %q: nil function", def.Name)
	}
	t, err := s.declareTool(def, options)
	if err != nil {
		return nil, err
	}
	in, out := reflect.TypeFor[In](), reflect.TypeFor[Out]()
	if !objectType(in) {
		return nil, fmt.Errorf("server: tool %q: arguments: want a struct or a map with string keys, got %v", def.Name, in)
	}
	if t.def.InputSchema.IsZero() {
		if err := s.inferArguments(&t, in); err != nil {
			return nil, fmt.Errorf("server: tool %q: arguments: %w", def.Name, err)
		}
	}
	toResult := contentConverter[Out]()
	if toResult == nil {
		if t.plain, err = s.declareOutput(&t, out); err != nil {
			return nil, fmt.Errorf("server: tool %q: output: %w", def.Name, err)
		}
		toResult = func(out Out) (*mcp.CallToolResult, error) { return Structured(out) }
		if t.plain {
			toResult = func(out Out) (*mcp.CallToolResult, error) { return plainResult(out) }
		}
	}
	t.call = func(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
		var in In
		if err := value.Decode(arguments, &in); err != nil {
			return errorResult("The arguments are not valid.\n" + err.Error()), nil
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return toResult(out)
	}
	t.decode = func(arguments json.RawMessage) error { return value.Decode(arguments, new(In)) }
	return s.addTool(t)
}

// AddRawTool adds a tool with a complete description, such as one that a proxy has received. Its
// schemas are those of def, and its function receives the arguments as a JSON object, validated
// against the input schema. The arguments have no defaults. Its faults are those of [AddTool].
func (s *Server) AddRawTool(def mcp.Tool, f ToolFunc[json.RawMessage, *mcp.CallToolResult], options ...ToolOption) *Handle[mcp.Tool] {
	h, err := s.addRawTool(def, f, options)
	return added(s, h, err)
}

func (s *Server) addRawTool(def mcp.Tool, f ToolFunc[json.RawMessage, *mcp.CallToolResult], options []ToolOption) (*Handle[mcp.Tool], error) {
	if s == nil {
		return nil, errNoServer
	}
	if f == nil {
		return nil, fmt.Errorf("server: tool %q: nil function", def.Name)
	}
	t, err := s.declareTool(def, options)
	if err != nil {
		return nil, err
	}
	t.call = f
	return s.addTool(t)
}

// declareTool returns a tool with a description and options. It has no function yet.
func (s *Server) declareTool(def mcp.Tool, options []ToolOption) (tool, error) {
	t := tool{def: def}
	for _, o := range options {
		if o == nil {
			return tool{}, fmt.Errorf("server: tool %q: nil option", def.Name)
		}
		o.forTool(&t)
	}
	if t.def.Name != def.Name {
		return tool{}, fmt.Errorf("server: tool %q: DefineTool changed the name to %q", def.Name, t.def.Name)
	}
	if t.support.Mode != "" && t.support.Mode != mcp.TaskSupportForbidden && s.cfg.Tasks.Store == nil {
		return tool{}, fmt.Errorf("server: tool %q: tasks need Options.Tasks.Store", def.Name)
	}
	switch {
	case t.limited && t.maxRunning < 1:
		return tool{}, fmt.Errorf("server: tool %q: MaxRunning (%d) is less than 1", def.Name, t.maxRunning)
	case t.limited && s.cfg.Tasks.Store == nil:
		return tool{}, fmt.Errorf("server: tool %q: MaxRunning needs Options.Tasks.Store", def.Name)
	}
	t.support.Labels = together(t.support.Labels, t.labels)
	if _, err := taskrules.LabelSet(t.support.Labels); err != nil {
		return tool{}, fmt.Errorf("server: tool %q: %w", def.Name, err)
	}
	if labelled := len(t.support.Labels) > 0 || len(t.labelsFor) > 0; labelled && (!t.support.Restartable || t.support.Mode == mcp.TaskSupportForbidden) {
		return tool{}, fmt.Errorf("server: tool %q: labels need Durable", def.Name)
	}
	return t, nil
}

func (s *Server) addTool(declared tool) (*Handle[mcp.Tool], error) {
	build := func(def mcp.Tool) (*tool, error) {
		t, err := newTool(def, declared)
		if err != nil {
			return nil, err
		}
		t.wrapped, err = wrap(s.cfg.Middleware.Tools, declared.middleware, func(ctx context.Context, c *Call, r *ToolRequest) (*mcp.CallToolResult, error) {
			result, err := t.serve(ctx, c, r.Arguments)
			if err != nil {
				return nil, err
			}
			return result, t.checkResult(c, result)
		})
		if err != nil {
			return nil, fmt.Errorf("server: tool %q: %w", def.Name, err)
		}
		return t, nil
	}
	return addTo(s.tools, declared.def, func(d *mcp.Tool) string { return d.Name }, build, func(t *tool) mcp.Tool { return t.def })
}

// optional returns the value of an optional member: nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// toolName matches valid names of tools (MCP tools, "Tool Names").
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// newTool completes declared, which has the function and the options, with the definition.
func newTool(def mcp.Tool, declared tool) (*tool, error) {
	if !toolName.MatchString(def.Name) {
		return nil, fmt.Errorf("server: tool name %q: want 1 to 128 ASCII letters, digits, underscores, hyphens and dots", def.Name)
	}
	t := &declared
	t.def = def
	t.declareTasks()
	var err error
	if t.in, t.fields, err = inputSchema(&def.InputSchema); err != nil {
		return nil, fmt.Errorf("server: tool %q: input schema: %w", def.Name, err)
	}
	if err := t.setOutput(); err != nil {
		return nil, fmt.Errorf("server: tool %q: output schema: %w", def.Name, err)
	}
	valid := t.def
	if w := t.wrapping(); w != nil {
		valid.OutputSchema = w
	}
	if err := valid.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: tool %q: %w", def.Name, err)
	}
	if t.decode != nil {
		if err := t.in.FindDefaults(t.decode); err != nil {
			return nil, fmt.Errorf("server: tool %q: %w", def.Name, err)
		}
	}
	return t, nil
}

// declareTasks sets the task support of the description to that of the option [Tasks]. Without the
// option, the tool has the task support of its description. Its tasks have its name.
func (t *tool) declareTasks() {
	t.support.Name, t.support.Version = t.def.Name, t.version
	t.support.Middleware = t.keep
	switch {
	case t.support.Mode != "":
		execution := mcp.ToolExecution{}
		if t.def.Execution != nil {
			execution = *t.def.Execution
		}
		execution.TaskSupport = new(t.support.Mode)
		t.def.Execution = &execution
	case t.def.Execution != nil && t.def.Execution.TaskSupport != nil:
		t.support.Mode = *t.def.Execution.TaskSupport
	}
}

// inputSchema compiles an input schema, and returns the header fields of arguments.
func inputSchema(s *mcp.ToolInputSchema) (*schemas.Input, []modern.Field, error) {
	text, err := codec.Marshal(s)
	if err != nil {
		return nil, nil, err
	}
	compiled, err := schemas.NewInput(text)
	if err != nil {
		return nil, nil, err
	}
	fields, err := modern.Fields(text)
	return compiled, fields, err
}

// objectType reports whether values of a type are encoded as JSON objects, unless its methods say
// otherwise.
func objectType(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map && t.Key().Kind() == reflect.String
}

// ListTools implements tools/list.
func (h *handler) ListTools(ctx context.Context, params *mcp.PaginatedRequestParams) (*mcp.ListToolsResult, error) {
	entries, next, err := page(newCall(ctx, h.p), h.p.s.tools, mcp.MethodToolsList, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListToolsResult{Tools: make([]mcp.Tool, len(entries)), NextCursor: next}
	anyOutput := newCall(ctx, h.p).traits().AnyOutput
	for i, e := range entries {
		result.Tools[i] = e.value.def
		if w := e.value.wrapping(); w != nil && !anyOutput {
			result.Tools[i].OutputSchema = w
		}
		if f := e.value.defineFor; f != nil {
			f(newCall(ctx, h.p), &result.Tools[i])
			result.Tools[i].Name = e.key
		}
	}
	return result, nil
}

// keptTool is the key of the context value with the *tool of a task.
type keptTool struct{}

// keep is middleware for a call that is a task, which waits for room before its work begins.
// Meanwhile, the tool may be removed or replaced: the work has the tool that the task was created or
// recovered for.
func (t *tool) keep(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		return next(context.WithValue(ctx, keptTool{}, t), req)
	}
}

// CallTool implements tools/call (MCP tools, "Calling Tools" and "Error Handling").
func (h *handler) CallTool(ctx context.Context, params *mcp.CallToolRequestParams) (mcp.CallToolOutcome, error) {
	c, err := h.beginTool(ctx, params)
	if err != nil {
		return nil, err
	}
	in, release := c.handlerContext(ctx)
	returned := false
	defer c.exit(&returned)
	result, err := c.tool.run(in, c, params.Arguments)
	returned = true
	release()
	return c.tool.finish(c, result, err)
}

// beginTool returns the call of a tool, with its tool, or the error that rejects it. It sets absent
// arguments to an empty object. Like finish, it is not part of CallTool, so that the frames below a
// running handler fit a small stack.
func (h *handler) beginTool(ctx context.Context, params *mcp.CallToolRequestParams) (*Call, error) {
	c := newCall(ctx, h.p)
	c.rounds = true
	t, ok := h.p.s.tools.get(c, params.Name)
	_, isTask := c.Task()
	if isTask {
		if kept, _ := ctx.Value(keptTool{}).(*tool); kept != nil {
			if e, found := h.p.s.tools.find(params.Name); !found || e.value != kept {
				t, ok = kept, true
			}
		}
	}
	if !ok {
		return nil, invalidParams("unknown tool: %q", params.Name)
	}
	c.plain = !isTask && !t.becomesTask()
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage(`{}`)
	}
	if err := t.checkFields(c, params.Arguments); err != nil {
		return nil, err
	}
	if t.support.Mode == mcp.TaskSupportRequired {
		if sess := c.Session(); !isTask && sess != nil && sess.Internals(boundary.Caller{}).TakesTask(mcp.MethodToolsCall) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this tool can only be called as a task"}
		}
		if h.p.s.cfg.Tasks.Store != nil && h.p.s.Tasks() == nil {
			return nil, noTasks()
		}
	}
	c.tool = t
	if err := c.resume(params.Name, params.RequestState, params.InputResponses); err != nil {
		return nil, err
	}
	if !c.plain {
		if pending, ok := rerun.PendingFrom(ctx); ok {
			pending.BeforeTask(c.beforeTask)
		}
	}
	return c, nil
}

// finish ends a call whose function has returned result and err, and returns its outcome.
func (t *tool) finish(c *Call, result *mcp.CallToolResult, err error) (mcp.CallToolOutcome, error) {
	outcome, err := t.outcome(c, result, err)
	failed := err != nil
	if result, ok := outcome.(*mcp.CallToolResult); ok {
		failed = result.IsError != nil && *result.IsError
	}
	first, fault := c.compensate(failed, outcome, err)
	switch {
	case fault != nil:
		return nil, fault
	case first == nil:
		return outcome, err
	case first.Error != nil:
		return nil, first.Error
	}
	failure := new(mcp.CallToolResult)
	return failure, codec.Unmarshal(first.Result, failure)
}

// outcome returns the outcome of a call whose function has returned result and err.
func (t *tool) outcome(c *Call, result *mcp.CallToolResult, err error) (mcp.CallToolOutcome, error) {
	if required, fault := c.end(t.def.Name, err); required != nil {
		return required, nil
	} else if fault != nil {
		return nil, fault
	}
	if err != nil {
		return failureResult(c, err)
	}
	if err := t.checkResult(c, result); err != nil {
		return nil, err
	}
	return result, nil
}

// becomesTask reports whether a plain call of the tool may become a task while it runs.
func (t *tool) becomesTask() bool {
	return t.support.Mode == mcp.TaskSupportOptional || t.support.Mode == mcp.TaskSupportRequired
}

// checkFields returns an error unless the header of a modern HTTP request repeats the arguments
// (MCP Streamable HTTP, "Server Behavior for Custom Headers").
func (t *tool) checkFields(c *Call, arguments json.RawMessage) error {
	if len(t.fields) == 0 || !c.traits().ParamHeaders {
		return nil
	}
	header := c.Header()
	if header == nil {
		return nil // not over HTTP
	}
	return modern.CheckFields(t.fields, arguments, header)
}

// run calls the middleware of the tool, then serve.
func (t *tool) run(ctx context.Context, c *Call, arguments json.RawMessage) (result *mcp.CallToolResult, err error) {
	defer boundary.Catch(&err)
	if t.wrapped == nil {
		return t.serve(ctx, c, arguments)
	}
	return t.wrapped(ctx, c, &ToolRequest{&t.def, arguments})
}

// serve validates the arguments, adds defaults and calls the function of the tool. It returns
// invalid arguments as a result with isError.
func (t *tool) serve(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	arguments, refused, err := t.prepare(ctx, c, arguments)
	if refused != nil || err != nil {
		return refused, err
	}
	if t.limited {
		return t.callLimited(ctx, c, arguments)
	}
	return t.call(ctx, c, arguments)
}

// prepare validates the arguments, unless begunWith says that they were valid, and adds defaults.
// refused is the result if they are invalid; otherwise nil.
func (t *tool) prepare(ctx context.Context, c *Call, arguments json.RawMessage) (complete json.RawMessage, refused *mcp.CallToolResult, err error) {
	faults, err := t.in.Check(ctx, arguments)
	if err != nil {
		return nil, nil, err
	}
	accepted := faults != "" && t.begunWith(c)
	if faults != "" && !accepted {
		return nil, errorResult("The arguments do not comply with the input schema of this tool.\n" + faults), nil
	}
	if _, isTask := c.Task(); !isTask {
		if err := t.checkLabels(ctx, c, arguments); err != nil {
			return nil, nil, err
		}
	}
	complete, changed := t.in.Complete(arguments)
	if !changed || accepted {
		return complete, nil, nil
	}
	if faults, err = t.in.Check(ctx, complete); err == nil && faults != "" {
		refused = errorResult("With the defaults of absent members, the arguments do not comply with the input schema of this tool.\n" + faults)
	}
	return complete, refused, err
}

// begunWith reports whether an earlier run of the function has begun with the arguments of the call.
// They have complied with the input schema of its program, and need not comply with that of this
// one: otherwise the call would fail after what it has done, and a task would register none of its
// undos. Middleware may have recorded what remains to be asked for, after arguments were refused. So
// those of a tool with middleware are validated in each run.
func (t *tool) begunWith(c *Call) bool {
	return t.wrapped == nil && c.replays() && c.recording().Replays()
}

// callLimited calls the function of a tool with the option [MaxRunning].
func (t *tool) callLimited(ctx context.Context, c *Call, arguments json.RawMessage) (*mcp.CallToolResult, error) {
	_, begun := rerun.PendingFrom(ctx)
	if _, isTask := c.Task(); isTask && !begun {
		return t.call(ctx, c, arguments) // the task has waited for room
	}
	tasks := c.p.s.Tasks()
	if tasks == nil {
		return nil, noTasks()
	}
	limited, release, err := tasks.Internals(boundary.Caller{}).Acquire(ctx, c.Principal(), t.def.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	return t.call(limited, c, arguments)
}

// checkResult returns an error if a result must not be sent. It logs invalid content.
func (t *tool) checkResult(c *Call, result *mcp.CallToolResult) error {
	if result == nil {
		return internalError("the tool returned no result")
	}
	err := t.checkOutput(c, result)
	if err == nil {
		if fault := cmp.Or(checkBlocks(result.Content), results.CheckMeta(result.Meta)); fault != nil {
			err = internalError("the result of the tool is invalid: %s", schemas.FirstFault(fault.Error()))
		}
	}
	if err != nil {
		c.p.s.cfg.Logger.Error("tool output rejected", "tool", t.def.Name, "error", err)
	}
	return err
}

// failureResult returns the outcome of a call whose tool has returned an error. A capability that
// the client of a modern request lacks is an error response (MCP basic, "_meta"). So is the reason
// why a call could not become a task, as for a call that is a task from its beginning: the client may
// repeat the request.
func failureResult(c *Call, err error) (mcp.CallToolOutcome, error) {
	if _, panicked := err.(*boundary.Panic); panicked || c.ctx.Err() != nil {
		return nil, err
	}
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return nil, err
	}
	if missing, ok := errors.AsType[*session.CapabilityError](err); ok && missing.Capability != "" && !missing.Own && c.traits().OwnErrors {
		return nil, err
	}
	if _, isTask := c.Task(); !isTask {
		_, limited := errors.AsType[*task.LimitError](err)
		if limited || errors.Is(err, task.ErrUnavailable) {
			return nil, task.WireError(err)
		}
	}
	return errorResult(boundary.ErrorText(err)), nil
}

// errorResult returns a result with isError and a text for the model.
func errorResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}, IsError: new(true)}
}

// support returns the task support of a request; see [receiver.Options]. A call of an unknown tool
// is rejected before it can be a task. A plain call is left to the handler, which knows the tool.
func (s *Server) support(ctx context.Context, req *session.Request) (receiver.Support, error) {
	if req.Traits().TasksByServer {
		return s.extensionSupport(ctx, req)
	}
	if _, asTask := req.Internals(boundary.Caller{}).Task(); !asTask {
		return receiver.Support{Mode: mcp.TaskSupportOptional}, nil
	}
	t := s.calledTool(ctx, req)
	if t == nil {
		if name, ok := modern.TextMember(req.Params, "name"); ok {
			return receiver.Support{}, invalidParams("unknown tool: %q", name)
		}
		return receiver.Support{Mode: mcp.TaskSupportOptional}, nil // the handler rejects the call
	}
	if t.support.Mode == "" {
		return receiver.Support{Mode: mcp.TaskSupportForbidden}, nil
	}
	return t.supportFor(ctx, s, req.Params)
}

// calledTool returns the tool that a request calls, or nil if it is unknown or hidden.
func (s *Server) calledTool(ctx context.Context, req *session.Request) *tool {
	name, ok := modern.TextMember(req.Params, "name")
	e, found := s.tools.find(name)
	if ok && found && (s.tools.open(e) || s.tools.shows(newCall(ctx, s.peerFor(ctx, req)), e)) {
		return e.value
	}
	return nil
}
