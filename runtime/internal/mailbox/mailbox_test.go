package mailbox

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func spawn(f func()) bool {
	go f()
	return true
}

func TestItemsAreHandledInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		m := &Mailbox[int]{Handle: func(n int) { got = append(got, n) }, Spawn: spawn, MaxItems: 10, MaxBytes: 100}
		m.Pause()
		for i := range 10 {
			m.Put(i, 1)
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("handled %v while paused", got)
		}
		m.Resume()
		synctest.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
			t.Errorf("handled %v, want %v", got, want)
		}
		if m.Running() {
			t.Error("Running is true with no item")
		}
		m.Put(10, 1)
		synctest.Wait()
		if len(got) != 11 {
			t.Errorf("handled %v: the mailbox did not start again", got)
		}
	})
}

func TestTryPutRejectsItemsWithoutRoom(t *testing.T) {
	for _, test := range []struct {
		sizes []int
		last  bool
	}{
		{[]int{1, 1, 1, 1}, false}, // MaxItems
		{[]int{50, 50}, true},
		{[]int{50, 51}, false}, // MaxBytes
		{[]int{1000}, true},    // above MaxBytes, but the only item
	} {
		m := &Mailbox[int]{Handle: func(int) {}, Spawn: spawn, MaxItems: 3, MaxBytes: 100}
		m.Pause()
		ok := true
		for _, size := range test.sizes {
			ok = m.TryPut(0, size)
		}
		if ok != test.last {
			t.Errorf("the last item of %v: TryPut returned %t, want %t", test.sizes, ok, test.last)
		}
	}
}

func TestPutWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		handled := 0
		m := &Mailbox[int]{Handle: func(int) { <-release; handled++ }, Spawn: spawn, MaxItems: 1, MaxBytes: 100}
		var puts sync.WaitGroup
		for i := range 4 {
			puts.Go(func() { m.Put(i, 1) })
		}
		synctest.Wait()
		for range 4 {
			release <- true
		}
		puts.Wait()
		synctest.Wait()
		if handled != 4 {
			t.Errorf("handled %d items, want 4", handled)
		}
	})
}

func TestCloseDropsItemsAndEndsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		var handled []int
		m := &Mailbox[int]{
			Handle: func(n int) { handled = append(handled, n); <-release }, Spawn: spawn, MaxItems: 1, MaxBytes: 100,
		}
		m.Put(0, 1)
		synctest.Wait()
		m.Put(1, 1)
		ended := make(chan bool)
		go func() { m.Put(2, 1); close(ended) }()
		synctest.Wait()
		m.Close()
		<-ended
		close(release)
		m.Put(3, 1)
		if !m.TryPut(4, 1) {
			t.Error("TryPut into a closed mailbox returned false")
		}
		synctest.Wait()
		if !slices.Equal(handled, []int{0}) {
			t.Errorf("handled %v, want only the first item", handled)
		}
	})
}

func TestWaitReturnsWhenAllIsHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan bool)
		handled := 0
		m := &Mailbox[int]{Handle: func(int) { <-release; handled++ }, Spawn: spawn, MaxItems: 9, MaxBytes: 100}
		m.Wait(t.Context()) // nothing is pending
		for i := range 3 {
			m.Put(i, 1)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m.Wait(ctx)
		if ctx.Err() == nil {
			t.Error("Wait returned before the items were handled")
		}
		go func() {
			for range 3 {
				release <- true
			}
		}()
		m.Wait(t.Context())
		if handled != 3 {
			t.Errorf("Wait returned after %d items, want 3", handled)
		}
	})
}

func TestHandleMayEndItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled []string
		m := &Mailbox[int]{
			Handle: func(n int) {
				handled = append(handled, fmt.Sprint(n))
				if n == 1 {
					runtime.Goexit()
				}
			},
			Spawn: spawn, MaxItems: 10, MaxBytes: 100,
		}
		m.Pause()
		for i := range 3 {
			m.Put(i, 1)
		}
		m.Resume()
		synctest.Wait()
		if !slices.Equal(handled, []string{"0", "1", "2"}) {
			t.Errorf("handled %v, want all three", handled)
		}
	})
}

func TestSpawnMayRefuse(t *testing.T) {
	m := &Mailbox[int]{
		Handle: func(int) { t.Error("an item was handled") }, Spawn: func(func()) bool { return false }, MaxItems: 1, MaxBytes: 1,
	}
	m.Put(0, 1)
	if m.Running() {
		t.Error("Running is true without a goroutine")
	}
}
