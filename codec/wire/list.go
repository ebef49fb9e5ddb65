package wire

import (
	"slices"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// decoder and encoder are the methods of a generated type; package codec documents them.
type (
	decoder interface{ DecodeJSON(r *Reader) }
	encoder interface{ EncodeJSON(w *Writer) }
)

// DecodeList reads an array of values that decode themselves. The slice is never nil, unless
// reading fails.
func DecodeList[T any, P interface {
	*T
	decoder
}](r *Reader) []T {
	list := []T{}
	start := r.pos
	for r.Array(); r.More(); {
		if list = room(r, start, list); r.Failed() {
			break
		}
		list = list[:len(list)+1]
		P(&list[len(list)-1]).DecodeJSON(r)
	}
	if r.Failed() {
		return nil
	}
	return list
}

// room returns list with room for at least one more element, unless the Reader fails because the
// list takes too much memory. It estimates the number of further
// elements from the size of those read since start. A wrong estimate wastes the memory of a few
// elements, or on a long list as much as append would.
func room[T any](r *Reader, start int, list []T) []T {
	n := len(list)
	if n < cap(list) {
		return list
	}
	more := max(n, 1)
	if 0 < n && len(r.frames) <= 3 { // else too much of the text is after the list
		size := max((r.pos-start)/n, 1)
		more = (len(r.data)-r.pos)/size + 1
		more += more / 8
		// A short list grows by a few elements at a time, a long one by a fraction of its length:
		// with steps of constant size, copying would take quadratic time.
		more = max(min(more, 8*n, max(n, 64)), n/4)
	}
	if r.take(more * sizeOf[T]()); r.memory < 0 {
		r.fail(r.pos, jsonfault.Memory)
		return list
	}
	grown := make([]T, n, n+more) // zero beyond its length, unlike what Grow returns
	copy(grown, list)
	return grown
}

// EncodeList writes list as an array; a nil slice is written as [].
func EncodeList[T any, P interface {
	*T
	encoder
}](w *Writer, list []T) {
	w.BeginArray()
	for i := range list {
		w.Elem()
		P(&list[i]).EncodeJSON(w)
	}
	w.EndArray()
}

// mapEntry is about the size of an entry of a map with a string as its key, without its value.
const mapEntry = 32

// DecodeMap reads an object whose members have any name and values that decode themselves. The map
// is never nil, unless reading fails.
func DecodeMap[T any, P interface {
	*T
	decoder
}](r *Reader) map[string]T {
	m := make(map[string]T)
	for r.Object(); r.More(); {
		key := r.Key()
		if _, ok := m[key]; ok {
			r.FailDuplicate()
		}
		r.take(mapEntry + sizeOf[T]())
		var v T
		P(&v).DecodeJSON(r)
		m[key] = v
	}
	if r.Failed() {
		return nil
	}
	return m
}

// EncodeMap writes m as an object with its names in order; a nil map is written as {}.
func EncodeMap[T any, P interface {
	*T
	encoder
}](w *Writer, m map[string]T) {
	w.Begin()
	names := len(w.keys)
	for _, name := range sortKeys(w, m) {
		w.MapKey(name)
		v := m[name]
		P(&v).EncodeJSON(w)
	}
	w.keys = w.keys[:names]
	w.End()
}

// ReadTexts reads an array of strings. The slice is never nil, unless reading fails.
func ReadTexts[T ~string](r *Reader) []T {
	var few [8]T // the first elements; most lists have no more
	var list []T
	n := 0
	for r.Array(); r.More(); n++ {
		text := T(r.Text())
		if n < len(few) {
			few[n] = text
			continue
		}
		if n == len(few) {
			list = append(make([]T, 0, 4*n), few[:]...)
		}
		list = append(list, text)
	}
	switch {
	case r.Failed():
		return nil
	case n <= len(few):
		return append(make([]T, 0, n), few[:n]...)
	}
	return list
}

// DecodeListFunc is like [DecodeList], but decodes each element by calling read.
func DecodeListFunc[T any](r *Reader, read func(*Reader) T) []T {
	list := []T{}
	start := r.pos
	for r.Array(); r.More(); {
		if list = room(r, start, list); r.Failed() {
			break
		}
		list = append(list, read(r))
	}
	if r.Failed() {
		return nil
	}
	return list
}

// EncodeListFunc is like [EncodeList], but encodes each element by calling write.
func EncodeListFunc[T any](w *Writer, list []T, write func(*Writer, T)) {
	w.BeginArray()
	for _, v := range list {
		w.Elem()
		write(w, v)
	}
	w.EndArray()
}

// DecodeMapFunc is like [DecodeMap], but decodes each value by calling read.
func DecodeMapFunc[T any](r *Reader, read func(*Reader) T) map[string]T {
	m := make(map[string]T)
	r.Object()
	for _, ok := r.NextKey(); ok; _, ok = r.NextKey() {
		Put(r, &m, read)
	}
	if r.Failed() {
		return nil
	}
	return m
}

// EncodeMapFunc is like [EncodeMap], but encodes each value by calling write.
func EncodeMapFunc[T any](w *Writer, m map[string]T, write func(*Writer, T)) {
	w.Begin()
	WriteMembers(w, m, write)
	w.End()
}

// WriteMembers writes the entries of m, sorted by name, into the object that is being
// written.
func WriteMembers[T any](w *Writer, m map[string]T, write func(*Writer, T)) {
	names := len(w.keys)
	for _, name := range sortKeys(w, m) {
		w.MapKey(name)
		write(w, m[name])
	}
	w.keys = w.keys[:names]
}

// sortKeys appends the names in m to w.keys, where those of enclosing maps are, and returns them
// sorted.
func sortKeys[T any](w *Writer, m map[string]T) []string {
	before := len(w.keys)
	for name := range m {
		w.keys = append(w.keys, name)
	}
	names := w.keys[before:]
	slices.Sort(names)
	return names
}
