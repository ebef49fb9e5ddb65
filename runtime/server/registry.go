package server

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Errors of changes to the features of a server.
var (
	// ErrExists is returned if the server already has a feature with that name or URI.
	ErrExists = errors.New("server: exists already")
	// ErrRemoved is returned if the feature was removed.
	ErrRemoved = errors.New("server: was removed")
)

// set is the features of one kind, by name or URI.
type set[T comparable] struct {
	s       *Server
	changed string // the notification of a change

	mu    sync.Mutex
	all   map[string]*entry[T]
	shown atomic.Pointer[[]*entry[T]] // those that are enabled, sorted by key; never changed once it is here
}

// entry is a feature in a set. It is immutable: a change replaces the entry.
type entry[T comparable] struct {
	key      string
	value    T
	disabled bool
}

func newSet[T comparable](s *Server, changed string) *set[T] {
	x := &set[T]{s: s, changed: changed, all: map[string]*entry[T]{}}
	x.shown.Store(new([]*entry[T]))
	return x
}

// empty reports whether there is no feature, not even one that is disabled.
func (x *set[T]) empty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.all) == 0
}

// get returns an enabled feature.
func (x *set[T]) get(key string) (value T, ok bool) {
	list := *x.shown.Load()
	i, ok := slices.BinarySearchFunc(list, key, compareKey[T])
	if !ok {
		return value, false
	}
	return list[i].value, true
}

func compareKey[T comparable](e *entry[T], key string) int { return cmp.Compare(e.key, key) }

// after returns the enabled features behind a key, at most limit of them, and whether there are
// more.
func (x *set[T]) after(key string, limit int) (page []*entry[T], more bool) {
	list := *x.shown.Load()
	i, found := slices.BinarySearchFunc(list, key, compareKey[T])
	if found {
		i++
	}
	list = list[i:]
	if len(list) > limit {
		return list[:limit], true
	}
	return list, false
}

func (x *set[T]) add(key string, value T) error {
	x.mu.Lock()
	if x.all[key] != nil {
		x.mu.Unlock()
		return fmt.Errorf("%w: %q", ErrExists, key)
	}
	x.all[key] = &entry[T]{key: key, value: value}
	x.show(key, x.all[key])
	x.mu.Unlock()
	x.s.announce(x.changed)
	return nil
}

// change replaces an entry by the result of f, or removes it if that is nil. It does nothing if f
// returns an equal entry. It calls f again if the entry was replaced meanwhile.
func (x *set[T]) change(key string, f func(entry[T]) (*entry[T], error)) error {
	for {
		x.mu.Lock()
		old := x.all[key]
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

// replace puts an entry in the place of another one, if that is still there.
func (x *set[T]) replace(key string, old, now *entry[T]) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.all[key] != old {
		return false
	}
	if now == nil {
		delete(x.all, key)
	} else {
		x.all[key] = now
	}
	x.show(key, now)
	return true
}

// show puts an entry, or nothing if that is nil or disabled, in its place in the list of the
// enabled features. It is called with mu held.
func (x *set[T]) show(key string, e *entry[T]) {
	old := *x.shown.Load()
	i, found := slices.BinarySearchFunc(old, key, compareKey[T])
	list := append(make([]*entry[T], 0, len(old)+1), old[:i]...)
	if e != nil && !e.disabled {
		list = append(list, e)
	}
	if found {
		i++
	}
	list = append(list, old[i:]...)
	x.shown.Store(&list)
}

// Handle changes a feature of a server, also while sessions are open. D is the type of its
// description, such as [mcp.Tool]. It is safe for concurrent use. Its methods fail with
// [ErrRemoved] if the feature was removed, and for the zero Handle.
type Handle[D any] struct {
	change  func(func(*D)) error
	disable func(bool) error
	remove  func() error
}

// Change changes the description of the feature: f gets a copy of it, which shares its lists with
// the original: f may replace them, not change them. F may be called again if another change comes
// in between. The new description is checked as at the start, and stays what it was if there is a
// fault. The name, or the URI, cannot be changed: remove the feature and add another.
func (h *Handle[D]) Change(f func(*D)) error {
	if f == nil {
		return errors.New("server: no function to change the description")
	}
	if h.change == nil {
		return ErrRemoved
	}
	return h.change(f)
}

// Disable hides the feature, as if it were not there, until Enable is called.
func (h *Handle[D]) Disable() error { return h.able(true) }

// Enable shows a disabled feature again.
func (h *Handle[D]) Enable() error { return h.able(false) }

func (h *Handle[D]) able(disabled bool) error {
	if h.disable == nil {
		return ErrRemoved
	}
	return h.disable(disabled)
}

// Remove removes the feature. Running calls continue.
func (h *Handle[D]) Remove() error {
	if h.remove == nil {
		return ErrRemoved
	}
	return h.remove()
}

// addTo adds the feature that build returns for def, and returns its handle. Define returns the
// description of a feature.
func addTo[T comparable, D any](x *set[T], def D, key func(*D) string, build func(D) (T, error), define func(T) D) (*Handle[D], error) {
	value, err := build(def)
	if err != nil {
		return nil, err
	}
	name := key(&def)
	if err := x.add(name, value); err != nil {
		return nil, err
	}
	return &Handle[D]{
		change: func(f func(*D)) error {
			return x.change(name, func(e entry[T]) (*entry[T], error) {
				def := define(e.value)
				f(&def)
				if key(&def) != name {
					return nil, fmt.Errorf("server: %q cannot become %q by a change", name, key(&def))
				}
				value, err := build(def)
				if err != nil {
					return nil, err
				}
				e.value = value
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
