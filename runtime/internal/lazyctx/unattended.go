package lazyctx

import "context"

type unattendedKey struct{}

// Unattended returns a context for a message that this module sends by itself, while nobody may be
// there to log in.
func Unattended(ctx context.Context) context.Context {
	return context.WithValue(ctx, unattendedKey{}, true)
}

// IsUnattended reports whether ctx is from [Unattended].
func IsUnattended(ctx context.Context) bool { return ctx.Value(unattendedKey{}) != nil }
