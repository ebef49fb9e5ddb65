package partial

import (
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// The members that carry tokens: one of params, and one of results.
const (
	tokenMember = "resumeToken"
	nextMember  = "nextResumeToken"
)

// tokenOf returns the token that is a member of an object; ok is false if there is none.
func tokenOf(object json.RawMessage, name string) (token string, ok bool, err error) {
	var kind wire.Kind
	codec.ReadPart(object, func(r *wire.Reader) { token, kind, ok = r.PeekMember(name) })
	if ok && kind != wire.KindString {
		return "", false, fmt.Errorf("partial: %s is not a string", name)
	}
	return token, ok, nil
}

// edited is an object whose member name is replaced by the token, or left out if token is nil.
type edited struct {
	object json.RawMessage
	name   string
	token  *string
}

// EncodeJSON writes the object, with the token at its end.
func (e *edited) EncodeJSON(w *wire.Writer) {
	w.Begin()
	codec.ReadPart(e.object, func(r *wire.Reader) {
		for r.Object(); r.More(); {
			name, raw := r.Key(), r.Raw()
			if name != e.name {
				w.MapKey(name)
				w.Raw(raw)
			}
		}
	})
	if e.token != nil {
		w.MapKey(e.name)
		w.Text(*e.token)
	}
	w.End()
}
