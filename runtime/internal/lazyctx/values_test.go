package lazyctx_test

import (
	"context"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

func TestValuesEndsWithItsOwnContext(t *testing.T) {
	type other struct{}
	life, end := context.WithCancel(context.WithValue(context.Background(), key{}, "own"))
	message, cancel := context.WithCancel(context.WithValue(context.WithValue(context.Background(), key{}, "hidden"), other{}, "other"))
	ctx := &lazyctx.Values{Context: life, Other: message}
	if ctx.Value(key{}) != "own" || ctx.Value(other{}) != "other" {
		t.Errorf("values %v and %v", ctx.Value(key{}), ctx.Value(other{}))
	}
	if v := (&lazyctx.Values{Context: life}).Value(other{}); v != nil {
		t.Errorf("value %v without another context", v)
	}
	cancel()
	if ctx.Err() != nil {
		t.Error("it ends with the other context")
	}
	end()
	<-ctx.Done()
}
