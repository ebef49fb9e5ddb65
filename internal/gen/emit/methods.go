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
	w.f(`// Direction is a set of sides that may send a message.
type Direction uint8

// The sides.
const (
	FromClient Direction = 1 << iota
	FromServer
)

// Method is one request or notification of the protocol.
type Method struct {
	Name         string    // as on the wire
	Notification bool      // a notification, else a request
	From         Direction // who may send it
	Task         bool      // a request that may be run as a task
	Params       string    // Go type of the params; "" if there are none
	Result       string    // Go type of the result; "" for notifications

	// Capability is what the message needs, such as "resources.subscribe"; "" if it needs nothing.
	// The receiver must have declared it, or the sender if SenderDeclares is set. See Needs.
	Capability     string
	SenderDeclares bool
	// TaskCapability is what the receiver must have declared to run the request as a task; "" if it
	// cannot be one. See NeedsAsTask.
	TaskCapability string

	definition   string
	revisions    uint64
	capabilityIn uint64 // revisions that have Capability
	taskIn       uint64 // revisions that have TaskCapability
}

// In reports whether revision rev has the method.
func (m Method) In(rev Revision) bool { return m.revisions&rev.bit() != 0 }

// Needs returns the Capability if revision rev has it, else "".
func (m Method) Needs(rev Revision) (capability string) {
	if m.capabilityIn&rev.bit() == 0 {
		return ""
	}
	return m.Capability
}

// NeedsAsTask returns the TaskCapability if revision rev has it, else "".
func (m Method) NeedsAsTask(rev Revision) (capability string) {
	if m.taskIn&rev.bit() == 0 {
		return ""
	}
	return m.TaskCapability
}

// Methods returns the method table: requests, then notifications, each sorted by name.
func Methods() []Method { return slices.Clone(methods[:]) }

// LookupMethod returns the row of a method.
func LookupMethod(name string) (Method, bool) {
	for i := range methods {
		if methods[i].Name == name {
			return methods[i], true
		}
	}
	return Method{}, false
}

var methods = [...]Method{
`)
	for _, m := range w.p.Methods {
		w.f("\t{Name: %q", m.Name)
		if m.Notification {
			w.f(", Notification: true")
		}
		w.f(", From: %s", [...]string{"", "FromClient", "FromServer", "FromClient | FromServer"}[m.From])
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
		w.f(", definition: %q, revisions: %#b},\n", m.Def, m.In)
	}
	w.f("}\n\n")

	w.f(`// DecodeParams decodes the params of a request or notification into their type, a pointer
// to a struct. It returns nil for params that are absent, as data of no length. The error
// is a [*codec.Error], or a [*jsonrpc.Error] for a method that the table does not have.
func DecodeParams(method string, data []byte, opts ...codec.Option) (Value, error) {
	if len(data) == 0 {
		return nil, nil
	}
	return jsonrpc.DecodePayload(method, data, ReadMethodParams, opts...)
}

// DecodeResult decodes the result that answers a request into its type. Where a method has
// several results, as with a task, it is one variant of their union. The error is a
// [*codec.Error], or a [*jsonrpc.Error] for a method that the table does not have.
func DecodeResult(method string, data []byte, opts ...codec.Option) (Value, error) {
	return jsonrpc.DecodePayload(method, data, ReadMethodResult, opts...)
}

// ReadMethodParams reads the params of a request or notification from r, as [DecodeParams] decodes
// them. It returns nil and consumes nothing for a method that the table does not have.
func ReadMethodParams(r *wire.Reader, method string) Value {
`)
	w.readBy(func(m *ir.Method) ir.Type { return m.Params })
	w.f(`}

// ReadMethodResult reads the result that answers a request from r, as [DecodeResult] decodes it. It
// returns nil and consumes nothing for a method that the table does not have.
func ReadMethodResult(r *wire.Reader, method string) Value {
`)
	w.readBy(func(m *ir.Method) ir.Type { return m.Result })
	w.f(`}

// ValidateParams checks the params of a request or notification against the schema of one
// revision. Params that are absent are data of no length.
func ValidateParams(rev Revision, method string, data []byte) error {
	m, ok := LookupMethod(method)
	if !ok || !m.In(rev) {
		return jsonrpc.MethodNotFound(method)
	}
	if len(data) > 0 {
		return Validate(rev, m.definition+"/params", data)
	}
	if root, ok := table.Root(string(rev), m.definition); ok && table.Requires(root, "params") {
		return fmt.Errorf("the method %%q must have params", method)
	}
	return nil
}
`)
}

// readBy prints the code that reads what pick names for the method. Methods with the same
// type share a case.
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

// role is one side of the protocol, in its part of answering the other.
type role struct {
	name  string // Server or Client
	other string // who sends to it
	from  ir.Direction
}

func (w *printer) handlers() {
	if len(w.p.Methods) == 0 {
		return
	}
	for _, side := range []role{{"Server", "client", ir.FromClient}, {"Client", "server", ir.FromServer}} {
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

func paramsArg(m *ir.Method) string {
	if m.Params == nil {
		return ""
	}
	return ", params " + pointerTo(m.Params)
}

// pointerTo is the type by which a value of t is passed: a union as it is, else a pointer.
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
	lower := strings.ToLower(side.name)
	w.f("// %sHandler answers the requests that a %s sends to a %s. Embed [Unimplemented%[1]sHandler]\n// to implement some of them. Params that may be left out are nil if they are. A\n// [*jsonrpc.Error] goes to the peer as it is.\ntype %[1]sHandler interface {\n", side.name, side.other, lower)
	for _, m := range ms {
		w.f("\t// %s answers %s.\n\t%[1]s(ctx context.Context%[3]s) (%s, error)\n", m.GoName, m.Name, paramsArg(m), pointerTo(m.Result))
	}
	w.f("}\n\n// Unimplemented%sHandler answers every request with the error that there is no such method.\ntype Unimplemented%[1]sHandler struct{}\n\n", side.name)
	for _, m := range ms {
		w.f("// %s refuses %s.\nfunc (Unimplemented%sHandler) %[1]s(ctx context.Context%[4]s) (%s, error) {\n\treturn nil, jsonrpc.MethodNotFound(%q)\n}\n\n",
			m.GoName, m.Name, side.name, paramsArg(m), pointerTo(m.Result), m.Name)
	}
	w.f("// Dispatch%s decodes the params of a request and calls the method of h that answers it. With\n// a revision the params are checked against its schema first; faults are a [*jsonrpc.Error]\n// with the code for invalid params.\nfunc Dispatch%[1]s(ctx context.Context, h %[1]sHandler, rev Revision, method string, params json.RawMessage) (codec.Encoder, error) {\n", side.name)
	w.f("\tif rev != \"\" {\n\t\tif err := ValidateParams(rev, method, params); err != nil {\n\t\t\treturn nil, jsonrpc.InvalidParams(err)\n\t\t}\n\t}\n\tswitch method {\n")
	for _, m := range ms {
		w.f("\tcase %q:\n\t\t", m.Name)
		w.serve("h."+m.GoName, m)
	}
	w.f("\t}\n\treturn nil, jsonrpc.MethodNotFound(method)\n}\n\n")
	w.f("// To%s sends typed requests to a %s through a [jsonrpc.Caller]. It may be used by many\n// goroutines if the caller may.\ntype To%[1]s struct{ Caller jsonrpc.Caller }\n\n", side.name, lower)
	for _, m := range ms {
		w.f("// %s sends %s and returns its result.\nfunc (c To%s) %[1]s(ctx context.Context%[4]s) (%s, error) {\n\treturn ", m.GoName, m.Name, side.name, paramsArg(m), pointerTo(m.Result))
		params := "nil"
		if m.Params != nil {
			params = "jsonrpc.Params(params)"
		}
		if under, pkg := underlying(m.Result); isUnion(under) {
			w.f("jsonrpc.CallFor(ctx, c.Caller, %q, %s, %sDecode%s)\n}\n\n", m.Name, params, pkg, goName(under))
		} else {
			w.f("jsonrpc.CallInto(ctx, c.Caller, %q, %s, new(%s))\n}\n\n", m.Name, params, goType(m.Result))
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
		kind = "Notice"
	}
	switch under, pkg := underlying(m.Params); {
	case m.Params == nil:
		if m.Notification {
			w.f("return %s(ctx)\n", method)
		} else {
			w.f("return %s(ctx)\n", method)
		}
	case isUnion(under):
		w.f("return jsonrpc.%sFor(ctx, params, %s, %sDecode%s, %s)\n", kind, opt, pkg, goName(under), method)
	default:
		w.f("return jsonrpc.%s(ctx, params, %s, %s)\n", kind, opt, method)
	}
}

func (w *printer) notifications(side role, ms []*ir.Method) {
	if len(ms) == 0 {
		return
	}
	lower := strings.ToLower(side.name)
	w.f("// %sNotificationHandler takes the notifications that a %s sends to a %s. Embed\n// [Unimplemented%[1]sNotificationHandler] to implement some of them. Params that may be left\n// out are nil if they are. Nobody is told of an error but the caller of [Dispatch%[1]sNotification].\ntype %[1]sNotificationHandler interface {\n", side.name, side.other, lower)
	for _, m := range ms {
		w.f("\t// %s takes %s.\n\t%[1]s(ctx context.Context%[3]s) error\n", m.GoName, m.Name, paramsArg(m))
	}
	w.f("}\n\n// Unimplemented%sNotificationHandler ignores every notification.\ntype Unimplemented%[1]sNotificationHandler struct{}\n\n", side.name)
	for _, m := range ms {
		w.f("// %s ignores %s.\nfunc (Unimplemented%sNotificationHandler) %[1]s(ctx context.Context%[4]s) error { return nil }\n\n", m.GoName, m.Name, side.name, paramsArg(m))
	}
	w.f("// Dispatch%sNotification decodes the params of a notification and calls the method of h that\n// takes it. With a revision the params are checked against its schema first.\nfunc Dispatch%[1]sNotification(ctx context.Context, h %[1]sNotificationHandler, rev Revision, method string, params json.RawMessage) error {\n", side.name)
	w.f("\tif rev != \"\" {\n\t\tif err := ValidateParams(rev, method, params); err != nil {\n\t\t\treturn jsonrpc.InvalidParams(err)\n\t\t}\n\t}\n\tswitch method {\n")
	for _, m := range ms {
		w.f("\tcase %q:\n\t\t", m.Name)
		w.serve("h."+m.GoName, m)
	}
	w.f("\t}\n\treturn jsonrpc.MethodNotFound(method)\n}\n\n")
	w.f("// Notify%s sends typed notifications to a %s through a [jsonrpc.Notifier]. It may be used by\n// many goroutines if the notifier may.\ntype Notify%[1]s struct{ Notifier jsonrpc.Notifier }\n\n", side.name, lower)
	for _, m := range ms {
		params := "nil"
		if m.Params != nil {
			params = "jsonrpc.Params(params)"
		}
		w.f("// %s sends %s.\nfunc (n Notify%s) %[1]s(ctx context.Context%[4]s) error {\n\treturn n.Notifier.Notify(ctx, %q, %s)\n}\n\n", m.GoName, m.Name, side.name, paramsArg(m), m.Name, params)
	}
}
