package schemadiff

import (
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// method is a method of one revision.
type method struct {
	def                    string // its definition
	notification           bool
	fromClient, fromServer bool
}

func (m method) String() string {
	kind := "request"
	if m.notification {
		kind = "notification"
	}
	switch {
	case m.fromClient && m.fromServer:
		return kind + " of either side"
	case m.fromClient:
		return kind + " of the client"
	case m.fromServer:
		return kind + " of the server"
	}
	return kind + " of a side that is not stated"
}

// methodsOf returns the methods of a revision: every definition called …Request or
// …Notification whose member method is a constant. The definitions ClientRequest,
// ServerRequest, ClientNotification and ServerNotification list the senders: each is a union
// or a single message.
func methodsOf(g *merge.Graph) map[string]method {
	found := map[string]method{}
	for _, name := range g.Names() {
		notification := strings.HasSuffix(name, "Notification")
		if !notification && !strings.HasSuffix(name, "Request") || isSide(name) {
			continue
		}
		if m := methodName(g.Defs[name].Node); m != "" {
			found[m] = method{
				def:          name,
				notification: notification,
				fromClient:   sends(g, "ClientRequest", m) || sends(g, "ClientNotification", m),
				fromServer:   sends(g, "ServerRequest", m) || sends(g, "ServerNotification", m),
			}
		}
	}
	return found
}

func isSide(name string) bool {
	switch name {
	case "ClientRequest", "ServerRequest", "ClientNotification", "ServerNotification":
		return true
	}
	return false
}

// sends reports whether the definition called side lists method.
func sends(g *merge.Graph, side, method string) bool {
	d := g.Defs[side]
	if d == nil {
		return false
	}
	u, ok := g.Follow(d.Node).(*merge.Union)
	if !ok {
		return methodName(g.Follow(d.Node)) == method
	}
	return slices.ContainsFunc(u.Variants, func(v *merge.Variant) bool { return methodName(g.Follow(v.Node)) == method })
}

// methodName returns the constant value of the member method of a message, or "".
func methodName(n merge.Node) string {
	o, ok := n.(*merge.Object)
	if !ok {
		return ""
	}
	m := o.Member("method")
	if m == nil {
		return ""
	}
	e, ok := m.Node.(*merge.Enum)
	if !ok || len(e.Values) != 1 {
		return ""
	}
	return strings.Trim(e.Values[0].JSON, `"`)
}

func (c *comparer) methods() {
	before, after := methodsOf(c.a), methodsOf(c.b)
	for name, b := range after {
		p := place{def: name}
		a, ok := before[name]
		if !ok {
			c.add(Method, p, Added, "", "new: %s (%s)", b, b.def)
			continue
		}
		switch {
		case a.notification != b.notification:
			c.add(Method, p, Breaking, "", "%s → %s", a, b)
		case b.fromClient && !a.fromClient || b.fromServer && !a.fromServer:
			c.add(Method, p, Added, "", "%s → %s", a, b)
		case a != (method{a.def, b.notification, b.fromClient, b.fromServer}):
			c.add(Method, p, None, "the handlers stay", "%s → %s", a, b)
		}
		if a.def != b.def && c.renamed[a.def] != b.def {
			c.add(Method, p, Breaking, "the Go names change", "definition %s → %s", a.def, b.def)
		}
	}
	for name, a := range before {
		if _, ok := after[name]; !ok {
			c.add(Method, place{def: name}, None, "it stays", "removed: %s (%s)", a, a.def)
		}
	}
}
