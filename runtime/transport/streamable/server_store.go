package streamable

import "context"

// storeContext is the context of a call of the store.
type storeContext struct {
	context.Context                 // ends when the call may be given up
	values          context.Context // has the values
	account         string          // for which the session counts; see accountOf
}

type accountKey struct{}

// Value implements [context.Context].
func (c *storeContext) Value(key any) any {
	if key == (accountKey{}) {
		return c.account
	}
	return c.values.Value(key)
}

// accountOf returns the account for which the session of a call of the store counts, or "".
func accountOf(ctx context.Context) string {
	account, _ := ctx.Value(accountKey{}).(string)
	return account
}

// storing returns the context of a call of the store for a session that counts for an account. It has
// the values of ctx, and ends only if the Handler is closed and the store does not return.
func (h *Handler) storing(ctx context.Context, account string) context.Context {
	return &storeContext{h.stores, ctx, account}
}
