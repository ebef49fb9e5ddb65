package modern

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestQuotaLimitsEachPrincipal(t *testing.T) {
	q := &Quota{Limit: Size{Count: 4, Bytes: 100}}
	for _, step := range []struct {
		principal string
		size      Size
		want      error
	}{
		{"ann", Size{2, 40}, nil},
		{"ann", Size{3, 1}, ErrCount},
		{"ann", Size{1, 61}, ErrBytes},
		{"ann", Size{3, 61}, ErrCount},
		{"bob", Size{5, 0}, ErrCount},
		{"bob", Size{4, 100}, nil},
		{"ann", Size{2, 60}, nil},
		{"ann", Size{0, 1}, ErrBytes},
		{"", Size{1, 0}, nil},
	} {
		if err := q.Reserve(step.principal, step.size); err != step.want {
			t.Errorf("Reserve(%q, %v) = %v, want %v", step.principal, step.size, err, step.want)
		}
	}
	want := map[string]Size{"ann": {4, 100}, "bob": {4, 100}, "": {1, 0}}
	if diff := cmp.Diff(want, q.Used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
}

func TestReleaseMakesRoom(t *testing.T) {
	q := &Quota{Limit: Size{Count: 4, Bytes: 100}}
	must := func(principal string, s Size) {
		t.Helper()
		if err := q.Reserve(principal, s); err != nil {
			t.Errorf("Reserve(%q, %v) = %v", principal, s, err)
		}
	}
	must("ann", Size{3, 70})
	must("ann", Size{1, 30})
	q.Release("ann", Size{3, 70})
	if diff := cmp.Diff(map[string]Size{"ann": {1, 30}}, q.Used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	must("ann", Size{3, 70})
	q.Release("ann", Size{1, 30})
	q.Release("ann", Size{3, 70})
	if used := q.Used(); len(used) > 0 {
		t.Errorf("used %v after the end of all subscriptions", used)
	}
}

func TestQuotaIsSafeForConcurrentUse(t *testing.T) {
	q := &Quota{Limit: Size{Count: 3, Bytes: 30}}
	var users sync.WaitGroup
	for range 10 {
		users.Go(func() {
			for i := range 100 {
				principal := strconv.Itoa(i % 2)
				if q.Reserve(principal, Size{1, 10}) == nil {
					if used := q.Used()[principal]; used.Count > 3 || used.Bytes > 30 {
						t.Errorf("used %v", used)
					}
					q.Release(principal, Size{1, 10})
				}
			}
		})
	}
	users.Wait()
	if used := q.Used(); len(used) > 0 {
		t.Errorf("used %v after the end of all subscriptions", used)
	}
}

func TestEqualChangesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChanges(strings.Compare)
		if got := c.Take(); len(got) > 0 {
			t.Errorf("took %q before a change", got)
		}
		for range 1000 {
			c.Add("b")
			c.Add("a")
		}
		<-c.Added()
		if got, want := c.Take(), []string{"a", "b"}; !slices.Equal(got, want) {
			t.Errorf("took %q, want %q", got, want)
		}
		if got := c.Take(); len(got) > 0 {
			t.Errorf("took %q twice", got)
		}
		select {
		case <-c.Added():
			t.Error("changes were added that are not pending")
		default:
		}
	})
}

// A reader that waits on Added and then takes the changes misses none of them.
func TestReaderWakesForEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewChanges(func(a, b int) int { return a - b })
		end := make(chan struct{})
		var got []int
		busy := make(chan struct{}) // the reader reads from it before it takes changes
		go func() {
			for {
				select {
				case <-c.Added():
					<-busy
					got = append(got, c.Take()...)
				case <-end:
					return
				}
			}
		}()
		expect := func(want ...int) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			got = nil
		}
		expect()
		c.Add(1)
		synctest.Wait() // the reader is busy
		c.Add(3)
		c.Add(2)
		c.Add(1)
		busy <- struct{}{}
		synctest.Wait()
		busy <- struct{}{} // it was woken once more, for nothing
		expect(1, 2, 3)
		c.Add(1)
		busy <- struct{}{}
		expect(1)
		close(end)
	})
}
