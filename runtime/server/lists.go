package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// A client keeps a list until the server announces a change. A session that is restored in another
// process may be in a server with other features, which has seen no change. Therefore the state of
// a session that is persisted contains a fingerprint of each list: that of the time of the
// handshake, and later that of the list that the client has fetched. If the fingerprint is another
// one when the session is restored, the server announces the list.

// lists are the lists of features, by the capability of their features, and the notifications of
// their changes.
var lists = [...]struct{ capability, changed string }{
	{"tools", mcp.MethodNotificationsToolsListChanged},
	{"resources", mcp.MethodNotificationsResourcesListChanged},
	{"prompts", mcp.MethodNotificationsPromptsListChanged},
}

// isList reports whether a method is the notification of a changed list.
func (s *Server) isList(method string) bool {
	for _, list := range lists {
		if list.changed == method {
			return true
		}
	}
	return s.offers(method) != nil
}

// listOf returns the capability of the list that a method returns, or "" for other methods.
func listOf(method string) string {
	switch method {
	case mcp.MethodToolsList:
		return "tools"
	case mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList:
		return "resources"
	case mcp.MethodPromptsList:
		return "prompts"
	}
	return ""
}

// printOf returns the share of a feature in the fingerprint of its list.
func printOf[D any](kind Kind, def *D) uint64 {
	text, err := codec.Marshal(any(def).(codec.Encoder))
	if err != nil {
		return rand.Uint64() // not reached: the description is valid
	}
	sum := sha256.Sum256(append([]byte(kind), text...))
	return binary.BigEndian.Uint64(sum[:])
}

// fingerprint returns a number that another process has for the same list of features. It is 0,
// which counts as different from itself, if the list cannot be compared: callers see different
// lists, or a function of the author returns the list. Middleware may edit the list in a way that
// changes with the version of the server only, so the version is then a part of the list.
func (s *Server) fingerprint(list string) uint64 {
	var sum uint64
	var methods []string
	switch list {
	case "tools":
		sum, methods = s.tools.print.Load(), []string{mcp.MethodToolsList}
	case "resources":
		sum, methods = s.resources.print.Load()+s.templates.print.Load(), []string{mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList}
	case "prompts":
		sum, methods = s.prompts.print.Load(), []string{mcp.MethodPromptsList}
	}
	for _, method := range methods {
		if s.varies(method) || s.cfg.Features.Methods[method] != nil {
			return 0
		}
	}
	text := binary.BigEndian.AppendUint64(nil, sum)
	if len(s.cfg.Session.Hooks.Receiving) > 0 {
		text = append(text, s.cfg.Info.Version...)
	}
	all := sha256.Sum256(text)
	return max(1, binary.BigEndian.Uint64(all[:]))
}

// compareLists sets lists, the fingerprints of the lists whose changes the client has been told to
// expect. For a restored session, it announces those that differ from the persisted ones, and
// restores their capabilities. It is called before the session opens.
func (p *peer) compareLists(declared *mcp.ServerCapabilities) {
	if p.store == nil {
		return
	}
	known := p.lists // nil for a new session, and for one of an earlier version of this module
	p.lists = map[string]uint64{}
	for _, list := range lists {
		now, print, ok := p.s.fingerprint(list.capability), known[list.capability], true
		switch {
		case known != nil:
			_, ok = known[list.capability]
		case p.reopened:
			ok = declared.Declares(list.capability + ".listChanged")
		default:
			print, ok = now, declared.Declares(list.capability+".listChanged")
		}
		if !ok {
			continue
		}
		p.lists[list.capability] = print
		if p.reopened && (now == 0 || now != print) {
			declareList(declared, list.capability)
			p.notify(notice{method: list.changed})
		}
	}
	if !p.reopened {
		p.stateChanges++
		p.tryPersist(context.Background())
	}
}

// declareList declares the changes of a list, if the server does not have such features any more
// that the client of a restored session knows.
func declareList(c *mcp.ServerCapabilities, list string) {
	switch {
	case c.Declares(list + ".listChanged"):
	case list == "tools":
		c.Tools = &mcp.ServerCapabilitiesTools{ListChanged: new(true)}
	case list == "resources":
		c.Resources = &mcp.ServerCapabilitiesResources{ListChanged: new(true)}
	case list == "prompts":
		c.Prompts = &mcp.ServerCapabilitiesPrompts{ListChanged: new(true)}
	}
}

// lacksList reports whether a notification is that of a list whose changes the client has not been
// told to expect. The caller must hold mu.
func (p *peer) lacksList(method string) bool {
	if p.lists == nil {
		return false
	}
	for _, list := range lists {
		if list.changed == method {
			_, ok := p.lists[list.capability]
			return !ok
		}
	}
	return false
}

// beginList returns the list that a request fetches, and its fingerprint. The list is "" if the
// fingerprint is not persisted.
func (p *peer) beginList(method string) (list string, print uint64) {
	if p.store == nil {
		return "", 0
	}
	if list = listOf(method); list != "" {
		print = p.s.fingerprint(list)
	}
	return list, print
}

// endList persists the fingerprint of a list that the client is about to receive, if it has
// changed. Without it, a process with the features of before would not announce them.
func (p *peer) endList(ctx context.Context, list string, print uint64) {
	if print != p.s.fingerprint(list) {
		print = 0 // the list is that of before or of after a change
	}
	p.mu.Lock()
	known, ok := p.lists[list]
	if changed := ok && known != print && !p.ended; !changed {
		p.mu.Unlock()
		return
	}
	p.lists[list] = print
	p.stateChanges++
	p.mu.Unlock()
	p.tryPersist(ctx)
}
