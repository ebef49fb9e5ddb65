package codec

import (
	"maps"
	"slices"
)

// DecodeList reads an array of values that decode themselves. The slice is never nil, unless reading fails.
func DecodeList[T any, P interface {
	*T
	Decoder
}](r *Reader) []T {
	list := []T{}
	for r.Array(); r.More(); {
		var v T
		P(&v).DecodeJSON(r)
		list = append(list, v)
	}
	if r.Failed() {
		return nil
	}
	return list
}

// EncodeList writes list as an array; a nil slice is written as [].
func EncodeList[T any, P interface {
	*T
	Encoder
}](w *Writer, list []T) {
	w.BeginArray()
	for i := range list {
		w.Elem()
		P(&list[i]).EncodeJSON(w)
	}
	w.EndArray()
}

// DecodeMap reads an object whose members have any name and values that decode themselves. The map is never
// nil, unless reading fails.
func DecodeMap[T any, P interface {
	*T
	Decoder
}](r *Reader) map[string]T {
	m := make(map[string]T)
	for r.Object(); r.More(); {
		key := r.Key()
		if _, ok := m[key]; ok {
			r.Duplicate(key)
		}
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
	Encoder
}](w *Writer, m map[string]T) {
	start := w.Begin()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		w.MapKey(name)
		v := m[name]
		P(&v).EncodeJSON(w)
	}
	w.End(start, Extra{})
}

// Texts reads an array of strings. The slice is never nil, unless reading fails.
func (r *Reader) Texts() []string {
	list := []string{}
	for r.Array(); r.More(); {
		list = append(list, r.Text())
	}
	if r.Failed() {
		return nil
	}
	return list
}

// Texts writes an array of strings; a nil slice is written as [].
func (w *Writer) Texts(list []string) {
	w.BeginArray()
	for _, s := range list {
		w.Elem()
		w.Text(s)
	}
	w.EndArray()
}
