package mcpgo

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/object"
)

// rewrite returns the message that a wrapper sends instead of text, which the SDK has written: a
// message or an event. For an error of intercept, it returns the response in it, or "" if the
// request was cancelled. For a request with params of mark, it returns the request with these
// params. For other texts, ok is false.
func (t *Tasks) rewrite(text []byte) (message string, ok bool) {
	if !bytes.Contains(text, []byte(t.secret)) {
		return "", false
	}
	if _, data, ok := bytes.Cut(text, []byte("\ndata: ")); ok {
		text = bytes.TrimSpace(data)
	}
	if e, ok := codec.Member(text, "error"); ok {
		return t.hidden(e, "message")
	}
	params, _ := codec.Member(text, "params")
	for _, name := range []string{"message", "metadata"} { // of elicitation/create, of sampling/createMessage
		if hidden, ok := t.hidden(params, name); ok {
			return string(object.With(text, "params", json.RawMessage(hidden))), true
		}
	}
	return "", false
}

// hidden returns the text after the secret in a member of an object. ok is false if there is no
// secret.
func (t *Tasks) hidden(object json.RawMessage, name string) (hidden string, ok bool) {
	var text string
	codec.ReadPart(object, func(r *wire.Reader) { text, _, _ = r.PeekMember(name) })
	return t.cut(text)
}

// mark returns a text for a member of a request. It makes rewrite replace the params of the
// request.
func (t *Tasks) mark(params json.RawMessage) string { return t.secret + string(oneLine(params)) }

// cut returns the text after the secret. ok is false if text does not begin with the secret.
func (t *Tasks) cut(text string) (hidden string, ok bool) { return strings.CutPrefix(text, t.secret) }
