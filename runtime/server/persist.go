package server

import (
	"cmp"
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

// persistedState is the state of a session that a [transport.Persister] persists, because the
// client does not send it again after a restart of the server.
type persistedState struct {
	Principal     string            `json:"principal,omitempty"` // of the latest subscription
	Level         mcp.LoggingLevel  `json:"level,omitempty"`     // set by the client; empty if none
	Subscriptions []string          `json:"subscriptions,omitempty"`
	Elicitations  map[string]string `json:"elicitations,omitempty"` // principals by id
	Lists         map[string]uint64 `json:"lists,omitzero"`         // fingerprints; see peer.lists
}

// persist returns once the current state is persisted. It writes the state to the store unless
// another call has done so. All changes made while another call writes are persisted by a single
// write after it. The error of persist is for the client.
func (p *peer) persist(ctx context.Context) error {
	if p.store == nil {
		return nil
	}
	p.mu.Lock()
	changes := p.stateChanges
	p.mu.Unlock()
	p.persistMu.Lock() // held during I/O, because states must be persisted in order
	defer p.persistMu.Unlock()
	if p.persisted >= changes {
		return nil
	}
	state, changes := p.state()
	text, err := json.Marshal(state)
	if err == nil {
		err = boundary.Run(func() error { return p.store.PersistState(context.WithoutCancel(ctx), text) })
	}
	switch {
	case err == nil:
		p.persisted = changes
		return nil
	case errors.Is(err, transport.ErrClosed):
		return nil // the session has ended, and its state with it
	case errors.Is(err, transport.ErrTooLong):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "state of the session is too long to persist"}
	}
	p.s.cfg.Logger.Error("session state not persisted", "error", err)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: cannot persist the state of the session"}
}

// tryPersist is persist for a change that cannot be rejected. After a failure, the next change
// persists this one, too.
func (p *peer) tryPersist(ctx context.Context) {
	if err := p.persist(ctx); err != nil {
		p.s.cfg.Logger.Warn("latest session state not persisted", "error", err)
	}
}

// state returns the state to persist, and the number of changes that it includes.
func (p *peer) state() (k persistedState, changes uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k = persistedState{Principal: p.principal, Level: p.clientLevel, Elicitations: make(map[string]string, len(p.elicitations))}
	k.Subscriptions = slices.Sorted(maps.Keys(p.subscriptions))
	for id, e := range p.elicitations {
		k.Elicitations[id] = e.principal
	}
	k.Lists = maps.Clone(p.lists)
	return k, p.stateChanges
}

// restore restores the state that the connection has persisted. It is called before the session
// opens.
func (p *peer) restore(persister transport.Persister) {
	text, ok := persister.PersistedState()
	if !ok {
		return
	}
	p.store = persister
	p.reopened = text != nil
	if !p.reopened {
		_, _, p.reopened = persister.Restored()
	}
	if text == nil {
		return
	}
	var k persistedState
	if err := json.Unmarshal(text, &k); err != nil {
		p.s.cfg.Logger.Error("persisted session state discarded", "error", err)
		return
	}
	p.setLevel(k.Level)
	p.mu.Lock()
	p.principal = k.Principal
	account := cmp.Or(k.Principal, p.key) // the network of the client is not stored
	for _, uri := range k.Subscriptions {
		p.s.listeners.quota.Add(account, sizeOf(uri)) // another process may have had room for it
		p.addSubscription(uri, account)
	}
	for id, principal := range k.Elicitations {
		p.addElicitation(id, &elicitation{principal: principal})
	}
	p.lists = k.Lists
	p.persisted = p.stateChanges
	p.mu.Unlock()
	if len(k.Subscriptions) > 0 && p.s.cfg.Hooks.Subscribe != nil {
		p.restoring, p.restored = make(chan struct{}), k.Subscriptions
	}
}

// restoreSubscriptions starts calling [Hooks.Subscribe] for the restored subscriptions.
func (p *peer) restoreSubscriptions() {
	if p.restoring == nil {
		return
	}
	p.mu.Lock()
	ctx := transport.WithPrincipal(context.Background(), p.principal)
	p.mu.Unlock()
	ctx, p.cancelRestore = context.WithCancel(ctx)
	go func() { // ends after the last call of Subscribe; stopRestoring cancels ctx and waits for it
		defer close(p.restoring)
		for _, uri := range p.restored {
			if ctx.Err() != nil {
				p.unsubscribe(uri)
			} else if err := p.callSubscribe(ctx, uri); err != nil {
				if !boundary.Report(p.s.cfg.Logger, "Subscribe panicked", err, "uri", uri) {
					p.s.cfg.Logger.Warn("restored subscription ended", "uri", uri, "error", err)
				}
				p.unsubscribe(uri)
			}
		}
		p.restored = nil
	}()
}

// waitRestored waits until Subscribe was called for all restored subscriptions.
func (p *peer) waitRestored(ctx context.Context) error {
	if p.restoring == nil {
		return nil
	}
	select {
	case <-p.restoring:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopRestoring cancels restoreSubscriptions and waits for it.
func (p *peer) stopRestoring() {
	if p.cancelRestore != nil {
		p.cancelRestore()
		<-p.restoring
	}
}
