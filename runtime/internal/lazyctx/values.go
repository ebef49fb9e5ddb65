package lazyctx

import "context"

// Values is a context with the values of Other in addition to its own. It ends with Context, and
// does not end with Other. Where both have a value, it returns that of Context.
type Values struct {
	context.Context
	Other context.Context // nil for none
}

// Value implements [context.Context].
func (c *Values) Value(key any) any {
	if v := c.Context.Value(key); v != nil || c.Other == nil {
		return v
	}
	return c.Other.Value(key)
}
