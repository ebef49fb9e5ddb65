package session

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Raw is a JSON text as a [codec.Encoder]. It is written byte for byte, unless it has line breaks
// outside of strings: then white space is removed.
type Raw json.RawMessage

// EncodeJSON validates and writes the text.
func (r Raw) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

// AddMeta returns the JSON object with a member added to its _meta, or replaced if there is one of
// that name. The other members stay as they are. The given text is not modified. It fails if the
// text or its _meta is not a valid object, or with the error of [CheckMetaKey] for the name.
func AddMeta(object json.RawMessage, name string, value codec.Encoder) (json.RawMessage, error) {
	return addMeta(object, []metaMember{{name, value}})
}

type metaMember struct {
	name  string
	value codec.Encoder
}

func addMeta(object json.RawMessage, add []metaMember) (json.RawMessage, error) {
	if len(object) == 0 {
		object = json.RawMessage(`{}`)
	}
	for _, m := range add {
		if err := CheckMetaKey(m.name); err != nil {
			return nil, err
		}
	}
	if err := codec.Valid(object, codec.AllowSize(object)...); err != nil {
		return nil, err
	}
	return boundary.MarshalFunc(func(w *wire.Writer) {
		found := false
		w.Begin()
		err := codec.ReadPart(object, func(r *wire.Reader) {
			for r.Object(); r.More(); {
				name := r.Key()
				w.MapKey(name)
				if name == "_meta" {
					found = true
					writeMeta(w, r, add)
					continue
				}
				w.Raw(r.Raw())
			}
			r.End()
		})
		if !found {
			w.Key(`,"_meta":`)
			writeMeta(w, nil, add)
		}
		w.End()
		w.Fail("", err)
	})
}

// writeMeta writes the next object of r, or an empty one if r is nil, with members added or
// replaced.
func writeMeta(w *wire.Writer, r *wire.Reader, add []metaMember) {
	w.Begin()
	if r != nil {
		for r.Object(); r.More(); {
			name := r.Key()
			raw := r.Raw()
			if !replaced(add, name) {
				w.MapKey(name)
				w.Raw(raw)
			}
		}
	}
	for _, m := range add {
		w.MapKey(m.name)
		m.value.EncodeJSON(w)
	}
	w.End()
}

func replaced(add []metaMember, name string) bool {
	for _, m := range add {
		if m.name == name {
			return true
		}
	}
	return false
}
