package proxy

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// textOf returns the text at a path of member names in a JSON object. ok is false if there is none.
func textOf(object json.RawMessage, path ...string) (text string, ok bool) {
	last := len(path) - 1
	for _, name := range path[:last] {
		if object, ok = codec.Member(object, name); !ok {
			return "", false
		}
	}
	var kind wire.Kind
	err := codec.ReadPart(object, func(r *wire.Reader) { text, kind, ok = r.PeekMember(path[last]) })
	return text, err == nil && ok && kind == wire.KindString
}

// editText returns the JSON object with the text at a path replaced by f of it. Members alike those
// on the path are removed, see [withoutAlike]. All other bytes are kept, and all if there is no text
// at the path. The object is not modified.
func editText(object json.RawMessage, f func(string) string, path ...string) json.RawMessage {
	object = withoutAlike(object, path[0])
	start, end, ok := find(object, path[0])
	if !ok {
		return object
	}
	value := object[start:end]
	if len(path) > 1 {
		value = editText(value, f, path[1:]...)
	} else {
		var text string
		if codec.ReadPart(value, func(r *wire.Reader) { text = r.Text() }) != nil {
			return object
		}
		var err error
		if value, err = codec.Marshal(codec.StringScalar(f(text))); err != nil {
			return object
		}
	}
	out := make(json.RawMessage, 0, len(object)-(end-start)+len(value))
	out = append(append(out, object[:start]...), value...)
	return append(out, object[end:]...)
}

// withoutAlike returns the JSON object without members that are alike one of the names. Some
// decoders take these for the member of that name, so that a peer could pass a value by the proxy,
// which has checked or replaced another one.
func withoutAlike(text json.RawMessage, names ...string) json.RawMessage {
	isAlike := func(key string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return alike(key, name) })
	}
	found := false
	codec.ReadPart(text, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more && !found; key, more = r.NextKey() {
			found = isAlike(string(key))
			r.Skip()
		}
	})
	if !found {
		return text
	}
	return jsonedit.Filter(text, func(key string) bool { return !isAlike(key) })
}

// alike reports whether two different names differ in case, underscores and dashes only.
func alike(key, name string) bool {
	if key == name {
		return false
	}
	const ignored = "_-"
	if strings.ContainsAny(key, ignored) || strings.ContainsAny(name, ignored) {
		drop := func(r rune) rune {
			if strings.ContainsRune(ignored, r) {
				return -1
			}
			return r
		}
		key, name = strings.Map(drop, key), strings.Map(drop, name)
	}
	return strings.EqualFold(key, name)
}

// quote returns a text as JSON.
func quote(text string) json.RawMessage {
	out, err := codec.Marshal(codec.StringScalar(text))
	if err != nil {
		return json.RawMessage(`""`) // not UTF-8
	}
	return out
}

// find returns the position of the value of a member.
func find(object json.RawMessage, name string) (start, end int, ok bool) {
	err := codec.ReadPart(object, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more; key, more = r.NextKey() {
			if string(key) != name {
				r.Skip()
				continue
			}
			start = r.Offset()
			end, ok = start+len(r.RawBytes()), !r.Failed()
			return
		}
	})
	return start, end, ok && err == nil
}

// elements returns copies of the elements of the array in a member of a JSON object.
func elements(object json.RawMessage, member string) (list []json.RawMessage) {
	array, _ := codec.Member(object, member)
	codec.ReadPart(array, func(r *wire.Reader) {
		for r.Array(); r.More(); {
			list = append(list, json.RawMessage(strings.Clone(string(r.RawBytes()))))
		}
	})
	return list
}

// mergeObjects returns the members of both JSON objects. Those of a take precedence.
func mergeObjects(a, b json.RawMessage) json.RawMessage {
	if len(a) == 0 {
		return b
	}
	var members wire.Extra
	for _, object := range []json.RawMessage{b, a} {
		codec.ReadPart(object, func(r *wire.Reader) {
			for r.Object(); r.More(); {
				name := r.Key()
				members.Set(name, r.Raw())
			}
		})
	}
	out := []byte{'{'}
	for name, value := range members.All() {
		if len(out) > 1 {
			out = append(out, ',')
		}
		var err error
		if out, err = codec.Append(out, codec.StringScalar(name)); err != nil {
			return a
		}
		out = append(append(out, ':'), value...)
	}
	return append(out, '}')
}
