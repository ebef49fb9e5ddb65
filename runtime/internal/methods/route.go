package methods

import "github.com/mcpwire/mcpwire/mcp"

// Feature wraps the handlers of the methods that it concerns. H is the type of handlers.
type Feature[H any] struct {
	Name string
	// Concerns is asked once for each method, when a Table is compiled. Messages whose method the
	// Table does not know are those of the method without a name.
	Concerns func(m mcp.Method) bool
	Wrap     func(next H) H
}

// Route is what happens to the messages of one method.
type Route[H any] struct {
	Serve    H        // with the features around it
	Features []string // their names, the outermost first; for tests
}

// Table has the routes of one side. It is immutable.
type Table[H any] struct {
	requests, notifications           map[string]*Route[H]
	otherRequests, otherNotifications *Route[H] // of unknown methods
}

// Compile returns the table of some methods. Handler returns the innermost handler of a method, or
// of unknown methods if that has no name. The first feature is the outermost. If several methods
// have the same name, the first one counts.
func Compile[H any](methods []mcp.Method, handler func(m mcp.Method) H, features []Feature[H]) *Table[H] {
	route := func(m mcp.Method) *Route[H] {
		r := &Route[H]{Serve: handler(m)}
		for i := len(features) - 1; i >= 0; i-- {
			if f := &features[i]; f.Concerns(m) {
				r.Serve, r.Features = f.Wrap(r.Serve), append([]string{f.Name}, r.Features...)
			}
		}
		return r
	}
	t := &Table[H]{
		requests: map[string]*Route[H]{}, notifications: map[string]*Route[H]{},
		otherRequests: route(mcp.Method{}), otherNotifications: route(mcp.Method{Notification: true}),
	}
	for _, m := range methods {
		of := t.requests
		if m.Notification {
			of = t.notifications
		}
		if of[m.Name] == nil {
			of[m.Name] = route(m)
		}
	}
	return t
}

// Route returns the route of a message.
func (t *Table[H]) Route(method string, notification bool) *Route[H] {
	of, other := t.requests, t.otherRequests
	if notification {
		of, other = t.notifications, t.otherNotifications
	}
	if r := of[method]; r != nil {
		return r
	}
	return other
}
