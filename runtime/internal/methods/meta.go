package methods

import (
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// MetaMember is a member of a _meta.
type MetaMember struct {
	Name  string
	Value codec.Encoder
}

// AddMeta returns the JSON object with a member added to its _meta, or replaced if there is one of
// that name. The other members stay as they are. The given text is not modified. It fails if the
// text or its _meta is not a valid object, or with the error of [CheckMetaKey] for the name.
func AddMeta(object json.RawMessage, name string, value codec.Encoder) (json.RawMessage, error) {
	return AddMetaMembers(object, []MetaMember{{name, value}})
}

// AddMetaMembers is [AddMeta] for several members.
func AddMetaMembers(object json.RawMessage, add []MetaMember) (json.RawMessage, error) {
	if len(object) == 0 {
		object = json.RawMessage(`{}`)
	}
	for _, m := range add {
		if err := CheckMetaKey(m.Name); err != nil {
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
					WriteMeta(w, r, add)
					continue
				}
				w.Raw(r.Raw())
			}
			r.End()
		})
		if !found {
			w.Key(`,"_meta":`)
			WriteMeta(w, nil, add)
		}
		w.End()
		w.Fail("", err)
	})
}

// WriteMeta writes the next object of r, or an empty one if r is nil, with members added or
// replaced.
func WriteMeta(w *wire.Writer, r *wire.Reader, add []MetaMember) {
	w.Begin()
	if r != nil {
		for r.Object(); r.More(); {
			name := r.Key()
			raw := r.Raw()
			if !slices.ContainsFunc(add, func(m MetaMember) bool { return m.Name == name }) {
				w.MapKey(name)
				w.Raw(raw)
			}
		}
	}
	for _, m := range add {
		w.MapKey(m.Name)
		m.Value.EncodeJSON(w)
	}
	w.End()
}
