package emit

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

func (w *printer) methods() {
	if len(w.p.Methods) == 0 {
		return
	}
	client, server := w.p.Sides[0], w.p.Sides[1]
	w.f(`// Direction is the set of sides that may send a message.
type Direction uint8

// The sides.
const (
	From%s Direction = 1 << iota
	From%s
)

// String returns %[3]q, %[4]q or "%[3]s or %[4]s".
func (d Direction) String() string {
	switch d {
	case From%[1]s:
		return %[3]q
	case From%[2]s:
		return %[4]q
	case From%[1]s | From%[2]s:
		return "%[3]s or %[4]s"
	}
	return fmt.Sprintf("Direction(%%d)", uint8(d))
}

// Method is one request or notification of the protocol.
type Method struct {
	Name         string    // as on the wire
	Notification bool      // true for a notification, false for a request
	From         Direction // the sides that may send it
`, client, server, strings.ToLower(client), strings.ToLower(server))
	if !w.p.Plain {
		w.f(`	Task         bool      // true for a request that may run as a task
`)
	}
	w.f(`	Params       string    // Go type of the params; "" if there are none
	Result       string    // Go type of the result; "" for notifications

`)
	if w.p.Plain {
		w.f(`	params    string // definition of the params
	required  bool   // whether the message must have params
	revisions uint64
}

`)
	} else {
		w.f(`	// Capability names the capability that the message needs, such as "resources.subscribe", or is
	// "" if there is none. The receiver must have declared it, or the sender if SenderDeclares is
	// set. See Needs.
	Capability     string
	SenderDeclares bool
	// TaskCapability names the capability that the receiver must have declared to run the request
	// as a task, or is "" if the request cannot be a task. See NeedsAsTask.
	TaskCapability string

	definition   string
	params       string // definition of the params
	revisions    uint64
	capabilityIn uint64 // revisions that have Capability
	taskIn       uint64 // revisions that have TaskCapability
}

`)
	}
	w.f(`// In reports whether revision rev has the method.
func (m Method) In(rev Revision) bool { return m.revisions&rev.bit() != 0 }

`)
	if !w.p.Plain {
		w.f(`// Needs returns Capability if revision rev defines it, otherwise "".
func (m Method) Needs(rev Revision) (capability string) {
	if m.capabilityIn&rev.bit() == 0 {
		return ""
	}
	return m.Capability
}

// NeedsAsTask returns TaskCapability if revision rev defines it, otherwise "".
func (m Method) NeedsAsTask(rev Revision) (capability string) {
	if m.taskIn&rev.bit() == 0 {
		return ""
	}
	return m.TaskCapability
}

`)
	}
	w.f(`// Methods returns the method table: requests, then notifications, each sorted by name.
func Methods() []Method { return slices.Clone(methods[:]) }

// LookupMethod returns the method called name. It returns false if there is none.
func LookupMethod(name string) (Method, bool) {
	if m := lookup(name); m != nil {
		return *m, true
	}
	return Method{}, false
}

// lookup returns the method called name, or nil if there is none.
func lookup(name string) *Method {
	switch name {
`)
	for i, m := range w.p.Methods {
		w.f("\tcase %q:\n\t\treturn &methods[%d]\n", m.Name, i)
	}
	w.f(`	}
	return nil
}

var methods = [...]Method{
`)
	for _, m := range w.p.Methods {
		w.f("\t{Name: %q", m.Name)
		if m.Notification {
			w.f(", Notification: true")
		}
		w.f(", From: %s", [...]string{"", "From" + client, "From" + server, "From" + client + " | From" + server}[m.From])
		if m.Task {
			w.f(", Task: true")
		}
		if m.Params != nil {
			w.f(", Params: %q", goType(m.Params))
		}
		if m.Result != nil {
			w.f(", Result: %q", goType(m.Result))
		}
		w.methodColumns(m)
		if !w.p.Plain {
			w.f(", definition: %q", m.Def)
		}
		w.f(", params: %q", m.ParamsDef)
		if w.p.Plain && m.Params != nil && !m.OptParams {
			w.f(", required: true")
		}
		w.f(", revisions: %#b},\n", m.In)
	}
	w.f("}\n\n")

	w.f(`// DecodeParams decodes the params of a request or notification. The result is a pointer to a struct,
// or nil if data is empty, which means that the message has no params. The error is a
// [*codec.Error], or a [*jsonrpc.Error] if the method is unknown.
func DecodeParams(method string, data []byte, opts ...codec.Option) (Value, error) {
	if len(data) == 0 {
		return nil, nil
	}
	return rpc.DecodePayload(method, data, ReadMethodParams, opts...)
}

// DecodeResult decodes the result of a request. It is a pointer to a struct. If the method has
// several kinds of results, it is a variant of their union. The error is a [*codec.Error], or a
// [*jsonrpc.Error] if the method is unknown.
func DecodeResult(method string, data []byte, opts ...codec.Option) (Value, error) {
	return rpc.DecodePayload(method, data, ReadMethodResult, opts...)
}

// ReadMethodParams reads the params of a request or notification from r, like [DecodeParams]. If
// the method is unknown, it returns nil and consumes nothing.
func ReadMethodParams(r *wire.Reader, method string) Value {
`)
	w.readBy(func(m *ir.Method) ir.Type { return m.Params })
	w.f(`}

// ReadMethodResult reads the result of a request from r, like [DecodeResult]. If the method is
// unknown, it returns nil and consumes nothing.
func ReadMethodResult(r *wire.Reader, method string) Value {
`)
	w.readBy(func(m *ir.Method) ir.Type { return m.Result })
	w.f(`}

// ValidateParams checks the params of a request or notification against the schema of one revision.
// Empty data means that the message has no params.
func ValidateParams(rev Revision, method string, data []byte) error {
	m := lookup(method)
	if m == nil || m.revisions&rev.bit() == 0 {
		return jsonrpc.MethodNotFound(method)
	}
	if len(data) > 0 {
		return Validate(rev, m.params, data)
	}
	if %s {
		return fmt.Errorf("params of %%q are missing", method)
	}
	return nil
}
`, map[bool]string{true: "m.required", false: `root, ok := table.Root(string(rev), m.definition); ok && table.Requires(root, "params")`}[w.p.Plain])
}

// readBy prints the code that reads a value of the type that pick returns for the method. Methods
// with the same type share a case.
func (w *printer) readBy(pick func(*ir.Method) ir.Type) {
	var order []string
	cases := map[string][]string{}
	types := map[string]ir.Type{}
	for _, m := range w.p.Methods {
		t := pick(m)
		if t == nil {
			continue
		}
		name := goType(t)
		if cases[name] == nil {
			order = append(order, name)
			types[name] = t
		}
		cases[name] = append(cases[name], fmt.Sprintf("%q", m.Name))
	}
	if order != nil {
		w.f("\tswitch method {\n")
		for _, name := range order {
			w.f("\tcase %s:\n", strings.Join(cases[name], ", "))
			if under, pkg := underlying(types[name]); isUnion(under) {
				w.f("\t\treturn codec.Encoder(%sDecode%s(r)).(Value)\n", pkg, goName(under))
			} else {
				w.f("\t\treturn wire.New(r, (*%s).DecodeJSON)\n", name)
			}
		}
		w.f("\t}\n")
	}
	w.f("\treturn nil\n")
}

func isUnion(t ir.Type) bool { _, ok := t.(*ir.Union); return ok }

func goName(t ir.Type) string { return t.(*ir.Union).GoName }

// role is one side of the protocol as a receiver.
type role struct {
	name  string // Server or Client
	other string // the sender in words, such as "a client"
	from  ir.Direction
}

func (w *printer) handlers() {
	if len(w.p.Methods) == 0 {
		return
	}
	for _, side := range []role{
		{w.p.Sides[1], withArticle(w.p.Sides[0]), ir.FromClient}, {w.p.Sides[0], withArticle(w.p.Sides[1]), ir.FromServer},
	} {
		var requests, notifications []*ir.Method
		for _, m := range w.p.Methods {
			switch {
			case m.From&side.from == 0:
			case m.Notification:
				notifications = append(notifications, m)
			default:
				requests = append(requests, m)
			}
		}
		w.requests(side, requests)
		w.notifications(side, notifications)
	}
}

// withArticle returns the name of a side in words.
func withArticle(side string) string { return article(side) + " " + strings.ToLower(side) }

func paramsArg(m *ir.Method) string {
	if m.Params == nil {
		return ""
	}
	return ", params " + pointerTo(m.Params)
}

// pointerTo returns the Go type of a parameter for t: a union itself, or a pointer to any other
// type.
func pointerTo(t ir.Type) string {
	if under, _ := underlying(t); isUnion(under) {
		return goType(t)
	}
	return "*" + goType(t)
}

func (w *printer) requests(side role, ms []*ir.Method) {
	if len(ms) == 0 {
		return
	}
	lower := withArticle(side.name)
	w.f("// %sHandler handles the requests that %s sends to %s. Embed [Unimplemented%[1]sHandler]\n// to implement only some of them. Optional params are nil if absent. A [*jsonrpc.Error] is sent to\n// the peer unchanged.\ntype %[1]sHandler interface {\n", side.name, side.other, lower)
	for _, m := range ms {
		w.f("\t// %s handles %s.\n\t%[1]s(ctx context.Context%[3]s) (%s, error)\n", m.GoName, m.Name, paramsArg(m), pointerTo(m.Result))
	}
	w.f("}\n\n// Unimplemented%sHandler rejects every request with the error for an unknown method.\ntype Unimplemented%[1]sHandler struct{}\n\n", side.name)
	for _, m := range ms {
		w.f("// %s rejects %s.\nfunc (Unimplemented%sHandler) %[1]s(ctx context.Context%[4]s) (%s, error) {\n\treturn nil, jsonrpc.MethodNotFound(%q)\n}\n\n",
			m.GoName, m.Name, side.name, paramsArg(m), pointerTo(m.Result), m.Name)
	}
	w.f("// Dispatch%s decodes the params of a request and calls the method of h that handles it. If\n// rev is not empty, it first checks the params against the schema of that revision. It returns faults\n// as a [*jsonrpc.Error] with the code for invalid params.\nfunc Dispatch%[1]s(ctx context.Context, h %[1]sHandler, rev Revision, method string, params json.RawMessage) (codec.Encoder, error) {\n", side.name)
	w.f("\tif rev != \"\" {\n\t\tif err := ValidateParams(rev, method, params); err != nil {\n\t\t\treturn nil, jsonrpc.InvalidParams(err)\n\t\t}\n\t}\n\tswitch method {\n")
	for _, m := range ms {
		w.f("\tcase %q:\n\t\t", m.Name)
		w.serve("h."+m.GoName, m)
	}
	w.f("\t}\n\treturn nil, jsonrpc.MethodNotFound(method)\n}\n\n")
	w.f("// To%s sends typed requests to %s through a [jsonrpc.Caller]. It is safe for concurrent\n// use if Caller is.\ntype To%[1]s struct{ Caller jsonrpc.Caller }\n\n", side.name, lower)
	for _, m := range ms {
		w.f("// %s sends %s and returns its result.\nfunc (c To%s) %[1]s(ctx context.Context%[4]s) (%s, error) {\n\treturn ", m.GoName, m.Name, side.name, paramsArg(m), pointerTo(m.Result))
		params := "nil"
		if m.Params != nil {
			params = "rpc.Params(params)"
		}
		if under, pkg := underlying(m.Result); isUnion(under) {
			w.f("rpc.CallFor(ctx, c.Caller, %q, %s, %sDecode%s)\n}\n\n", m.Name, params, pkg, goName(under))
		} else {
			w.f("rpc.CallInto(ctx, c.Caller, %q, %s, new(%s))\n}\n\n", m.Name, params, goType(m.Result))
		}
	}
}

// serve prints the call of a handler method with decoded params.
func (w *printer) serve(method string, m *ir.Method) {
	opt := "false"
	if m.OptParams {
		opt = "true"
	}
	kind := "Serve"
	if m.Notification {
		kind = "ServeNotification"
	}
	switch under, pkg := underlying(m.Params); {
	case m.Params == nil:
		w.f("return %s(ctx)\n", method)
	case isUnion(under):
		w.f("return rpc.%sFor(ctx, params, %s, %sDecode%s, %s)\n", kind, opt, pkg, goName(under), method)
	default:
		w.f("return rpc.%s(ctx, params, %s, %s)\n", kind, opt, method)
	}
}

func (w *printer) notifications(side role, ms []*ir.Method) {
	if len(ms) == 0 {
		return
	}
	lower := withArticle(side.name)
	w.f("// %sNotificationHandler handles the notifications that %s sends to %s. Embed\n// [Unimplemented%[1]sNotificationHandler] to implement only some of them. Optional params are nil if\n// absent. [Dispatch%[1]sNotification] returns errors to its caller; the peer does not receive them.\ntype %[1]sNotificationHandler interface {\n", side.name, side.other, lower)
	for _, m := range ms {
		w.f("\t// %s handles %s.\n\t%[1]s(ctx context.Context%[3]s) error\n", m.GoName, m.Name, paramsArg(m))
	}
	w.f("}\n\n// Unimplemented%sNotificationHandler ignores every notification.\ntype Unimplemented%[1]sNotificationHandler struct{}\n\n", side.name)
	for _, m := range ms {
		w.f("// %s ignores %s.\nfunc (Unimplemented%sNotificationHandler) %[1]s(ctx context.Context%[4]s) error { return nil }\n\n", m.GoName, m.Name, side.name, paramsArg(m))
	}
	w.f("// Dispatch%sNotification decodes the params of a notification and calls the method of h that\n// handles it. If rev is not empty, it first checks the params against the schema of that revision.\nfunc Dispatch%[1]sNotification(ctx context.Context, h %[1]sNotificationHandler, rev Revision, method string, params json.RawMessage) error {\n", side.name)
	w.f("\tif rev != \"\" {\n\t\tif err := ValidateParams(rev, method, params); err != nil {\n\t\t\treturn jsonrpc.InvalidParams(err)\n\t\t}\n\t}\n\tswitch method {\n")
	for _, m := range ms {
		w.f("\tcase %q:\n\t\t", m.Name)
		w.serve("h."+m.GoName, m)
	}
	w.f("\t}\n\treturn jsonrpc.MethodNotFound(method)\n}\n\n")
	w.f("// Notify%s sends typed notifications to %s through a [jsonrpc.Notifier]. It is safe for\n// concurrent use if Notifier is.\ntype Notify%[1]s struct{ Notifier jsonrpc.Notifier }\n\n", side.name, lower)
	for _, m := range ms {
		params := "nil"
		if m.Params != nil {
			params = "rpc.Params(params)"
		}
		w.f("// %s sends %s.\nfunc (n Notify%s) %[1]s(ctx context.Context%[4]s) error {\n\treturn n.Notifier.Notify(ctx, %q, %s)\n}\n\n", m.GoName, m.Name, side.name, paramsArg(m), m.Name, params)
	}
}
