package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Errors of changes to the features of a server.
var (
	// ErrExists is returned if the server already has a feature with that name or URI.
	ErrExists = errors.New("server: feature exists already")
	// ErrRemoved is returned if the feature was removed.
	ErrRemoved = errors.New("server: feature was removed")
)

// feature is a pointer to a feature.
type feature interface {
	comparable
	shared() *common
}

// set holds the features of one kind, by name or URI.
type set[T feature] struct {
	s       *Server
	kind    Kind
	changed string // the method of the notification of a change

	mu      sync.Mutex
	entries map[string]*entry[T]
	enabled atomic.Pointer[[]*entry[T]] // enabled entries sorted by key; the slice is immutable
	print   atomic.Uint64               // sum of the prints of the enabled entries
	private atomic.Bool                 // the list differs between callers, see Server.listScope
}

// entry is a feature in a set. It is immutable: a change replaces the entry.
type entry[T feature] struct {
	key      string
	value    T
	print    uint64 // see printOf
	disabled bool
}

func newSet[T feature](s *Server, kind Kind, changed string) *set[T] {
	x := &set[T]{s: s, kind: kind, changed: changed, entries: map[string]*entry[T]{}}
	x.enabled.Store(new([]*entry[T]))
	return x
}

// empty reports whether there are no features. Disabled features count.
func (x *set[T]) empty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries) == 0
}

// get returns an enabled feature that is visible to a call.
func (x *set[T]) get(c *Call, key string) (value T, ok bool) {
	e, ok := x.find(key)
	if !ok || !x.shows(c, e) {
		return value, false
	}
	return e.value, true
}

// find returns the entry of an enabled feature.
func (x *set[T]) find(key string) (e *entry[T], ok bool) {
	list := *x.enabled.Load()
	i, ok := slices.BinarySearchFunc(list, key, compareKey[T])
	if !ok {
		return nil, false
	}
	return list[i], true
}

func compareKey[T feature](e *entry[T], key string) int { return strings.Compare(e.key, key) }

// after returns the enabled features after a key that are visible to a call, at most limit of them,
// and whether there are more. It fails when the context of the call ends.
func (x *set[T]) after(c *Call, key string, limit int) (page []*entry[T], more bool, err error) {
	list := *x.enabled.Load()
	i, found := slices.BinarySearchFunc(list, key, compareKey[T])
	if found {
		i++
	}
	list = list[i:]
	page = make([]*entry[T], 0, min(limit, len(list)))
	for _, e := range list {
		if !x.shows(c, e) {
			if c.ctx.Err() != nil {
				return nil, false, context.Cause(c.ctx)
			}
			continue
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, e)
	}
	return page, false, nil
}

func (x *set[T]) add(key string, value T, print uint64) error {
	x.mu.Lock()
	if x.entries[key] != nil {
		x.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrExists, key)
	}
	x.entries[key] = &entry[T]{key: key, value: value, print: print}
	x.setEnabled(key, x.entries[key])
	x.mu.Unlock()
	x.s.announce(x.changed)
	return nil
}

// change replaces an entry by the result of f, or removes it if the result is nil. It does nothing
// if f returns an equal entry. If another call replaces the entry while f runs, change calls f
// again.
func (x *set[T]) change(key string, f func(entry[T]) (*entry[T], error)) error {
	for {
		x.mu.Lock()
		old := x.entries[key]
		x.mu.Unlock()
		if old == nil {
			return fmt.Errorf("%w: %q", ErrRemoved, key)
		}
		now, err := f(*old)
		if err != nil || now != nil && *now == *old {
			return err
		}
		if x.replace(key, old, now) {
			if !old.disabled || now != nil && !now.disabled {
				x.s.announce(x.changed)
			}
			return nil
		}
	}
}

// replace replaces the entry old, or removes it if now is nil. It returns false if old is not the
// current entry.
func (x *set[T]) replace(key string, old, now *entry[T]) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entries[key] != old {
		return false
	}
	if now == nil {
		delete(x.entries, key)
	} else {
		x.entries[key] = now
	}
	x.setEnabled(key, now)
	return true
}

// setEnabled updates the entry of a key in the list of enabled features: it adds or replaces e, or
// removes the key if e is nil or disabled. The caller must hold mu.
func (x *set[T]) setEnabled(key string, e *entry[T]) {
	old := *x.enabled.Load()
	i, found := slices.BinarySearchFunc(old, key, compareKey[T])
	list := append(make([]*entry[T], 0, len(old)+1), old[:i]...)
	print := x.print.Load()
	if e != nil && !e.disabled {
		list = append(list, e)
		print += e.print
	}
	if found {
		print -= old[i].print
		i++
	}
	list = append(list, old[i:]...)
	x.private.Store(slices.ContainsFunc(list, func(e *entry[T]) bool {
		shared := e.value.shared()
		return len(shared.visible) > 0 || shared.tailored
	}))
	x.enabled.Store(&list)
	x.print.Store(print)
	x.s.features.Add(1)
}

// Handle changes a feature of a server, also while sessions are open. D is the type of its
// description, such as [mcp.Tool]. Its methods are safe for concurrent use. They fail with the error
// of Err if the feature was not added, and with [ErrRemoved] if it was removed.
type Handle[D any] struct {
	fault   error // why the feature was not added; then the functions are nil
	change  func(func(*D)) error
	disable func(bool) error
	remove  func() error
}

// added returns the handle of a feature. If it was not added because of err, added records err, and
// returns a handle that has it.
func added[D any](s *Server, h *Handle[D], err error) *Handle[D] {
	if err != nil {
		return &Handle[D]{fault: s.record(err)}
	}
	return h
}

// Err returns why the feature was not added, or nil. It need not be checked before the server starts:
// the start fails with the faults of all features, each with file and line; see [Server.Err]. A fault
// of a feature for a server that runs is logged as a warning, and the server continues without the
// feature: check Err there if the program depends on it.
func (h *Handle[D]) Err() error {
	if h == nil || h.fault == nil && h.change == nil {
		return ErrRemoved
	}
	return h.fault
}

// Change changes the description of the feature. F receives a copy, which shares its lists with the
// original: f may replace a list, but must not modify it. Change calls f again if another call has
// changed the feature in between. If the new description is invalid, Change fails and the feature
// stays as it was. The name, or the URI, cannot be changed: remove the feature and add another.
func (h *Handle[D]) Change(f func(*D)) error {
	if f == nil {
		return errors.New("server: change a feature: nil function")
	}
	if err := h.Err(); err != nil {
		return err
	}
	return h.change(f)
}

// Disable hides the feature from clients until Enable is called: it is not listed, and requests for
// it fail as for an unknown feature.
func (h *Handle[D]) Disable() error { return h.setDisabled(true) }

// Enable shows a disabled feature again.
func (h *Handle[D]) Enable() error { return h.setDisabled(false) }

func (h *Handle[D]) setDisabled(disabled bool) error {
	if err := h.Err(); err != nil {
		return err
	}
	return h.disable(disabled)
}

// Remove removes the feature. Running calls continue.
func (h *Handle[D]) Remove() error {
	if err := h.Err(); err != nil {
		return err
	}
	return h.remove()
}

// addTo adds the feature that build returns for def, and returns its handle. Key returns the key of
// a description. Define returns the description of a feature.
func addTo[T feature, D any](x *set[T], def D, key func(*D) string, build func(D) (T, error), define func(T) D) (*Handle[D], error) {
	value, err := build(def)
	if err != nil {
		return nil, err
	}
	name := key(&def)
	if err := value.shared().fault; err != nil {
		return nil, fmt.Errorf("server: %s %q: %w", x.kind, name, err)
	}
	if value.shared().scoped && !x.s.scoped.Swap(true) {
		x.s.features.Add(1) // before the feature exists: its requests pass the check of scopes
	}
	if err := x.add(name, value, printOf(x.kind, &def)); err != nil {
		return nil, err
	}
	return &Handle[D]{
		change: func(f func(*D)) error {
			return x.change(name, func(e entry[T]) (*entry[T], error) {
				def := define(e.value)
				f(&def)
				if key(&def) != name {
					return nil, fmt.Errorf("server: change feature %q: name changed to %q", name, key(&def))
				}
				value, err := build(def)
				if err != nil {
					return nil, err
				}
				e.value, e.print = value, printOf(x.kind, &def)
				return &e, nil
			})
		},
		disable: func(yes bool) error {
			return x.change(name, func(e entry[T]) (*entry[T], error) {
				e.disabled = yes
				return &e, nil
			})
		},
		remove: func() error {
			return x.change(name, func(entry[T]) (*entry[T], error) { return nil, nil })
		},
	}, nil
}
