// Package jsonedit edits JSON objects without decoding their members, and writes pointers into
// them.
package jsonedit

import (
	"encoding/json"
	"errors"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// With returns the JSON object with a member replaced, or added as the last one. A nil value
// removes the member. The other members stay as they are. A nil object stands for an empty one. It
// returns the object itself if that is not an object. The object is not modified.
func With(object json.RawMessage, name string, value json.RawMessage) json.RawMessage {
	if value == nil {
		if _, ok := codec.Member(object, name); !ok {
			return object
		}
	}
	if object == nil {
		object = json.RawMessage(`{}`)
	}
	return edited(object, func(key string) bool { return key != name }, name, value)
}

// Filter returns the JSON object with those members whose names keep reports. It returns the object
// itself if that is not an object. The object is not modified.
func Filter(object json.RawMessage, keep func(name string) bool) json.RawMessage {
	return edited(object, keep, "", nil)
}

// edited returns the JSON object with those members whose names keep reports, and with a last member
// unless its value is nil.
func edited(object json.RawMessage, keep func(name string) bool, name string, value json.RawMessage) json.RawMessage {
	out := append(make(json.RawMessage, 0, len(object)+len(name)+len(value)+len(`{"":,}`)), '{')
	add := func(name string, value json.RawMessage) error {
		if len(out) > 1 {
			out = append(out, ',')
		}
		text, err := codec.Append(out, codec.StringScalar(name))
		if err == nil {
			out = append(append(text, ':'), value...)
		}
		return err
	}
	var failed error
	err := codec.ReadPart(object, func(r *wire.Reader) {
		for r.Object(); r.More(); {
			key := r.Key()
			raw := r.RawBytes()
			if keep(key) {
				failed = errors.Join(failed, add(key, raw))
			}
		}
	})
	if value != nil {
		failed = errors.Join(failed, add(name, value))
	}
	if errors.Join(err, failed) != nil {
		return object
	}
	return append(out, '}')
}

// WithPath is [With] for a member of nested objects. It adds objects that are missing. It returns
// the object itself if a value on the path is not an object.
func WithPath(object json.RawMessage, value json.RawMessage, path ...string) json.RawMessage {
	if len(path) == 1 {
		return With(object, path[0], value)
	}
	inner, ok := codec.Member(object, path[0])
	if ok && (len(inner) == 0 || inner[0] != '{') {
		return object
	}
	return With(object, path[0], WithPath(inner, value, path[1:]...))
}
