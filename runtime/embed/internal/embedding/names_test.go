package embedding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Calls of made-up tools list the tools once for each client, also if they come at once, and again
// after a while.
func TestUnknownToolsAreListedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x toolNames
		lists := 0
		slow := func(ctx context.Context, in *Incoming, add func(string)) error {
			lists++
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return ctx.Err()
			}
			add("a")
			if in.Principal == "eve" {
				add("b")
			}
			return nil
		}
		type outcome struct {
			known bool
			err   error
		}
		call := func(ctx context.Context, principal, session, name string) <-chan outcome {
			done := make(chan outcome, 1)
			go func() {
				known, err := x.has(ctx, &Incoming{Principal: principal, Session: session}, name, slow)
				done <- outcome{known, err}
			}()
			synctest.Wait()
			return done
		}
		var pending []<-chan outcome
		for i := range 100 {
			pending = append(pending, call(t.Context(), "eve", "s", strconv.Itoa(i)))
		}
		impatient, cancel := context.WithCancel(t.Context())
		left := call(impatient, "eve", "s", "a")
		cancel()
		if got := <-left; !errors.Is(got.err, context.Canceled) {
			t.Errorf("a caller that leaves: %+v", got)
		}
		for _, done := range append(pending, call(t.Context(), "eve", "s", "c")) {
			if got := <-done; got != (outcome{}) {
				t.Errorf("an unknown tool: %+v", got)
			}
		}
		for name, want := range map[string]bool{"a": true, "b": true, "c": false} {
			if got := <-call(t.Context(), "eve", "s", name); got != (outcome{want, nil}) {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if lists != 1 {
			t.Errorf("listed %d times", lists)
		}
		if got := <-call(t.Context(), "ann", "s", "b"); got.known || lists != 2 {
			t.Errorf("another principal: %+v, listed %d times", got, lists)
		}
		time.Sleep(10 * time.Second)
		if got := <-call(t.Context(), "eve", "s", "b"); !got.known || lists != 3 {
			t.Errorf("later: %+v, listed %d times", got, lists)
		}
		gone, cancel := context.WithCancel(t.Context())
		first := call(gone, "bob", "s", "a")
		cancel()
		if got := <-first; got.err == nil {
			t.Errorf("a cancelled list: %+v", got)
		}
		if got := <-call(t.Context(), "bob", "s", "a"); !got.known {
			t.Errorf("after a cancelled list: %+v", got)
		}
		for i := range 1000 {
			<-call(t.Context(), "eve", fmt.Sprint("session-", i), "a")
		}
		if n := len(x.lists); n > 256 {
			t.Errorf("%d lists are kept", n)
		}
	})
}
