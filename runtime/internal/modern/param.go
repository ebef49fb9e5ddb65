package modern

import "context"

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
