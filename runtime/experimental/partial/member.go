package partial

import (
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
)

// The members that carry tokens: one of params, and one of results.
const (
	tokenMember = "resumeToken"
	nextMember  = "nextResumeToken"
)

// tokenOf returns the token that is a member of an object; ok is false if there is none.
func tokenOf(object json.RawMessage, name string) (token string, ok bool, err error) {
	r := codec.Borrow(object, codec.AllowSize(object)...)
	token, kind, ok := r.PeekMember(name)
	r.Release()
	if ok && kind != codec.KindString {
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
func (e *edited) EncodeJSON(w *codec.Writer) {
	r := codec.Borrow(e.object, append(codec.AllowSize(e.object), codec.NoCopy())...)
	defer r.Release()
	start := w.Begin()
	for r.Object(); r.More(); {
		name, raw := r.Key(), r.Raw()
		if name != e.name {
			w.MapKey(name)
			w.Raw(raw)
		}
	}
	if e.token != nil {
		w.MapKey(e.name)
		w.Scalar(codec.StringScalar(*e.token))
	}
	w.End(start, codec.Extra{})
}
