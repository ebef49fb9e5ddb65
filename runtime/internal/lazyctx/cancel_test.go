package lazyctx_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
)

// key is the key of a value in contexts.
type key struct{}

func TestCancellableEndsAsAContextDoes(t *testing.T) {
	cause := errors.New("enough")
	for name, use := range map[string]func(ctx context.Context){
		"unused":        func(context.Context) {},
		"with a waiter": func(ctx context.Context) { ctx.Done() },
		"with a call of Cause": func(ctx context.Context) {
			if got := context.Cause(ctx); got != nil {
				t.Errorf("cause %v before the end", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := new(lazyctx.Cancellable)
				use(c)
				if c.Err() != nil || c.Cause() != nil {
					t.Fatalf("ended by %v from the start", c.Cause())
				}
				derived, cancel := context.WithCancel(context.WithValue(c, key{}, "value"))
				defer cancel()
				c.Cancel(cause)
				c.Cancel(errors.New("too late"))
				// At once: synctest would report a goroutine that propagates the end.
				<-derived.Done()
				<-c.Done()
				for _, ctx := range []context.Context{c, derived} {
					if ctx.Err() != context.Canceled || context.Cause(ctx) != cause {
						t.Errorf("ended by %v, because of %v", ctx.Err(), context.Cause(ctx))
					}
				}
				if c.Cause() != cause {
					t.Errorf("Cause is %v", c.Cause())
				}
			})
		})
	}
}

func TestCancellableWithoutCause(t *testing.T) {
	c := new(lazyctx.Cancellable)
	c.Cancel(nil)
	if context.Cause(c) != context.Canceled || c.Cause() != context.Canceled {
		t.Errorf("ended because of %v, %v", context.Cause(c), c.Cause())
	}
}

func TestChildEndsWithParentOrByItself(t *testing.T) {
	for _, waits := range []bool{false, true} {
		for _, byParent := range []bool{false, true} {
			cause := errors.New("enough")
			parent, end := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
			c := &lazyctx.Child{Parent: parent}
			if waits {
				c.Done()
			}
			if c.Err() != nil || c.Cause() != nil || c.Value(key{}) != "value" {
				t.Errorf("from the start: %v, %v, value %v", c.Err(), c.Cause(), c.Value(key{}))
			}
			if byParent {
				end(cause)
			} else {
				c.Cancel(cause)
			}
			<-c.Done()
			if c.Err() != context.Canceled || c.Cause() != cause || context.Cause(c) != cause {
				t.Errorf("ended by %v, because of %v and %v", c.Err(), c.Cause(), context.Cause(c))
			}
			end(nil)
		}
	}
}

func TestBothEndsWithEither(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	for name, use := range map[string]func(b *lazyctx.Both){
		"with a waiter on each": func(*lazyctx.Both) {},
		"with a waiter on both": func(b *lazyctx.Both) { b.Done() },
	} {
		for _, cause := range []error{first, second} {
			t.Run(name+", by the "+cause.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, endA := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
					defer endA(nil)
					b, endB := context.WithCancelCause(context.Background())
					defer endB(nil)
					both := lazyctx.WithBoth(a, b)
					defer both.Release()
					use(both)
					if both.Err() != nil || both.Cause() != nil || context.Cause(both) != nil {
						t.Fatalf("ended by %v from the start", both.Cause())
					}
					if both.Value(key{}) != "value" {
						t.Error("the values of the first are lost")
					}
					if cause == first {
						endA(cause)
					} else {
						endB(cause)
					}
					synctest.Wait()
					x, y := both.Each()
					select {
					case <-x:
					case <-y:
					}
					if both.Err() != context.Canceled || both.Cause() != cause || context.Cause(both) != cause {
						t.Errorf("ended by %v, because of %v and %v", both.Err(), both.Cause(), context.Cause(both))
					}
					<-both.Done()
				})
			})
		}
	}
}

func TestBothEndsAtOnce(t *testing.T) {
	cause := errors.New("enough")
	life, end := context.WithCancelCause(context.Background())
	both := lazyctx.WithBoth(t.Context(), life)
	defer both.Release()
	done := both.Done()
	end(cause) // the goroutine that propagates it has not run yet
	if both.Err() != context.Canceled || context.Cause(both) != cause {
		t.Errorf("ended by %v, because of %v", both.Err(), context.Cause(both))
	}
	<-done
}

func TestBothLeavesNothingBehind(t *testing.T) {
	for name, waits := range map[string]bool{"waiting before": true, "waiting afterwards": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, end := context.WithCancel(context.Background())
				defer end()
				both := lazyctx.WithBoth(t.Context(), life)
				if waits {
					both.Done()
				}
				both.Release()
				<-both.Done()
				derived, cancel := context.WithCancel(both)
				defer cancel()
				<-derived.Done()
				if both.Err() != context.Canceled || context.Cause(both) != context.Canceled {
					t.Errorf("ended by %v, because of %v", both.Err(), context.Cause(both))
				}
			})
		})
	}
}

func TestLookupOfKeyDoesNotAllocate(t *testing.T) {
	type key struct{}
	if n := testing.AllocsPerRun(10, func() {
		var c lazyctx.Cancellable
		if v := c.Value(key{}); v != nil {
			t.Errorf("value %v, want nil", v)
		}
		if v := lazyctx.WithBoth(&c, &c).Value(key{}); v != nil {
			t.Errorf("value %v of both, want nil", v)
		}
	}); n > 2 { // the two contexts themselves
		t.Errorf("%v allocations, want at most 2", n)
	}
}

func TestDetachedHasOnlyValues(t *testing.T) {
	parent, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, "value"))
	d := &lazyctx.Detached{Parent: parent}
	derived, end := context.WithCancel(d)
	defer end()
	cancel(errors.New("enough"))
	for _, ctx := range []context.Context{d, derived} {
		if ctx.Err() != nil || context.Cause(ctx) != nil {
			t.Errorf("it ends with its parent: %v, because of %v", ctx.Err(), context.Cause(ctx))
		}
		if ctx.Value(key{}) != "value" {
			t.Error("the value of the parent is lost")
		}
	}
	if _, ok := d.Deadline(); ok || d.Done() != nil {
		t.Error("it can end")
	}
}
