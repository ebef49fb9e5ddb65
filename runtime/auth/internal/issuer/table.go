package issuer

import (
	"container/list"
	"time"
)

// Table is a map whose entries expire. If it is full, Put drops the oldest entry. It is not safe
// for concurrent use.
type Table[V any] struct {
	max      int
	lifetime time.Duration // of an entry
	entries  map[string]*list.Element
	order    *list.List // of tableEntry, in the order in which they expire
}

type tableEntry[V any] struct {
	key    string
	value  V
	expiry time.Time
}

// NewTable returns a table of at most max entries, which expire after lifetime.
func NewTable[V any](max int, lifetime time.Duration) *Table[V] {
	return &Table[V]{max: max, lifetime: lifetime, entries: map[string]*list.Element{}, order: list.New()}
}

// Put sets the value of a key. The lifetime of the entry begins anew.
func (t *Table[V]) Put(now time.Time, key string, value V) {
	t.Delete(key)
	for first := t.order.Front(); first != nil; first = t.order.Front() {
		e := first.Value.(*tableEntry[V])
		if len(t.entries) < t.max && now.Before(e.expiry) {
			break
		}
		t.Delete(e.key)
	}
	t.entries[key] = t.order.PushBack(&tableEntry[V]{key, value, now.Add(t.lifetime)})
}

// Get returns the value of a key. ok is false if there is none.
func (t *Table[V]) Get(now time.Time, key string) (value V, ok bool) {
	element := t.entries[key]
	if element == nil {
		return value, false
	}
	e := element.Value.(*tableEntry[V])
	if !now.Before(e.expiry) {
		t.Delete(key)
		return value, false
	}
	return e.value, true
}

// Delete removes a key.
func (t *Table[V]) Delete(key string) {
	if element := t.entries[key]; element != nil {
		t.order.Remove(element)
		delete(t.entries, key)
	}
}

// DeleteFunc removes each entry for whose value del returns true.
func (t *Table[V]) DeleteFunc(del func(V) bool) {
	for key, element := range t.entries {
		if del(element.Value.(*tableEntry[V]).value) {
			t.Delete(key)
		}
	}
}
