package proxy

import "fmt"

// What a tag binds to the principal of a client and to an upstream. The upstream knows all clients
// of the proxy as one, so the proxy must tell them apart.
const (
	boundTask  = "task"  // the id of a task
	boundState = "state" // a requestState
)

// bind returns a tag that binds a text to the principal of the client and to the upstream. Any
// proxy with the same key knows it.
func (l *link) bind(what, text string) string { return l.c.p.keys.Seal(l.binding(what, text), nil) }

// isBound reports whether a tag is that of a text, for the same principal and upstream.
func (l *link) isBound(what, text, tag string) bool {
	_, err := l.c.p.keys.Open(l.binding(what, text), tag)
	return err == nil
}

func (l *link) binding(what, text string) []byte {
	return fmt.Appendf(nil, "mcpwire proxy %s %q %q %q", what, l.c.principal, l.up.Name, text)
}
