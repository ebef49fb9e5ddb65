package modern

import (
	"context"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

type paramsKey struct{}

// WithParamHeaders returns a context for a request with header fields for arguments of a tool.
// Their names begin with [HeaderParam] and are in the canonical form of package http. A transport
// over HTTP sends them.
func WithParamHeaders(ctx context.Context, h map[string][]string) context.Context {
	return context.WithValue(ctx, paramsKey{}, h)
}

// ParamHeaders returns the header fields that WithParamHeaders has set, or nil.
func ParamHeaders(ctx context.Context) map[string][]string {
	h, _ := ctx.Value(paramsKey{}).(map[string][]string)
	return h
}

// TextMember returns the text of a member of a JSON object. ok is false if the object has no such
// member, or if the member is not a string. It does not check the object.
func TextMember(object []byte, name string) (text string, ok bool) {
	var kind wire.Kind
	codec.ReadPart(object, func(r *wire.Reader) { text, kind, ok = r.PeekMember(name) })
	if kind != wire.KindString {
		return "", false
	}
	return text, ok
}
