package partial

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestEndedOperationsExpire(t *testing.T) {
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

func TestEndedOperationsAreLimited(t *testing.T) {
	m := &memory{known: map[string]struct{}{}}
	for i := range maxEnded + 1000 {
		if err := m.Add(t.Context(), fmt.Sprint(i), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.known) != maxEnded || len(m.queue) != maxEnded {
		t.Errorf("%d and %d are remembered, want %d", len(m.known), len(m.queue), maxEnded)
	}
	if old, _ := m.Has(t.Context(), "999"); old {
		t.Error("the oldest is remembered")
	}
	if last, _ := m.Has(t.Context(), fmt.Sprint(maxEnded+999)); !last {
		t.Error("the newest is not remembered")
	}
}
