package resume

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestOperationsThatAreOverAreForgottenInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{known: map[string]struct{}{}}
		add := func(operation string) {
			if err := m.Add(t.Context(), operation, time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		has := func(operation string) bool {
			ok, err := m.Has(t.Context(), operation)
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		add("a")
		time.Sleep(time.Second)
		add("b")
		add("b")
		if !has("a") || !has("b") || has("c") {
			t.Error("a and b are over, c is not")
		}
		time.Sleep(time.Minute - time.Second)
		add("c")
		if has("a") || !has("b") || len(m.queue) != 2 {
			t.Errorf("%v are left", m.queue)
		}
	})
}
