package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// kept is the state of a session that a [transport.Keeper] persists: the client does not send it
// again after a restart of the server.
type kept struct {
	Principal     string            `json:"principal,omitempty"` // of the latest subscription
	Level         mcp.LoggingLevel  `json:"level,omitempty"`     // set by the client; empty if none
	Subscriptions []string          `json:"subscriptions,omitempty"`
	Elicitations  map[string]string `json:"elicitations,omitempty"` // principals by id
}

// keep persists the current state, unless that has happened, and returns when it is persisted.
// Changes made while another call persists are persisted together. The error is the response to the
// client's request.
func (p *peer) keep(ctx context.Context) error {
	if p.keeper == nil {
		return nil
	}
	p.mu.Lock()
	changes := p.changes
	p.mu.Unlock()
	p.keeping.Lock() // held during I/O, because states must be persisted in order
	defer p.keeping.Unlock()
	if p.safe >= changes {
		return nil
	}
	state, changes := p.state()
	text, err := json.Marshal(state)
	if err == nil {
		err = p.keeper.Keep(context.WithoutCancel(ctx), text)
	}
	switch {
	case err == nil:
		p.safe = changes
		return nil
	case errors.Is(err, transport.ErrClosed):
		return nil // the session has ended, and its state with it
	case errors.Is(err, transport.ErrTooLong):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the session has no room for more"}
	}
	p.s.cfg.Logger.Error("session not kept", "error", err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the session cannot be kept"}
}

// keepLater is keep for a change that cannot be rejected: after a failure, the next change persists
// it, too.
func (p *peer) keepLater(ctx context.Context) {
	if err := p.keep(ctx); err != nil {
		p.s.cfg.Logger.Warn("session kept without its last changes", "error", err)
	}
}

// state returns the state to persist, and the number of changes that it includes.
func (p *peer) state() (k kept, changes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k = kept{Principal: p.principal, Level: p.set, Elicitations: make(map[string]string, len(p.elicitations))}
	k.Subscriptions = slices.Sorted(maps.Keys(p.subscriptions))
	for id, e := range p.elicitations {
		k.Elicitations[id] = e.principal
	}
	return k, p.changes
}

// restore restores the state that the connection has persisted. It is called before the session
// opens.
func (p *peer) restore(keeper transport.Keeper) {
	text, ok := keeper.Kept()
	if !ok {
		return
	}
	p.keeper = keeper
	if text == nil {
		return
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil {
		p.s.cfg.Logger.Error("what was kept of a session is lost", "error", err)
		return
	}
	p.setLevel(k.Level)
	p.mu.Lock()
	p.principal = k.Principal
	for _, uri := range k.Subscriptions {
		p.note(uri)
	}
	for id, principal := range k.Elicitations {
		p.noteElicitation(id, &elicitation{principal: principal})
	}
	p.safe = p.changes
	p.mu.Unlock()
	if len(k.Subscriptions) > 0 && p.s.cfg.Subscribe != nil {
		p.telling, p.untold = make(chan struct{}), k.Subscriptions
	}
}

// tellAgain calls [Config].Subscribe for the restored subscriptions.
func (p *peer) tellAgain() {
	if p.telling == nil {
		return
	}
	p.mu.Lock()
	ctx := transport.WithPrincipal(context.Background(), p.principal)
	p.mu.Unlock()
	ctx, p.leave = context.WithCancel(ctx)
	go func() { // ends after the last call of Subscribe; stopTelling cancels ctx and waits for it
		defer close(p.telling)
		for _, uri := range p.untold {
			if ctx.Err() != nil {
				p.unsubscribe(uri)
			} else if err := p.tellSubscribed(ctx, uri); err != nil {
				if !boundary.Report(p.s.cfg.Logger, "Subscribe panicked", err, "uri", uri) {
					p.s.cfg.Logger.Warn("subscription ended at the restart", "uri", uri, "error", err)
				}
				p.unsubscribe(uri)
			}
		}
		p.untold = nil
	}()
}

// told waits until Subscribe was called for all restored subscriptions.
func (p *peer) told(ctx context.Context) error {
	if p.telling == nil {
		return nil
	}
	select {
	case <-p.telling:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopTelling ends tellAgain.
func (p *peer) stopTelling() {
	if p.leave != nil {
		p.leave()
		<-p.telling
	}
}
