package issuer

import (
	"testing"
	"time"
)

func TestTableDropsOldestAndExpiredEntries(t *testing.T) {
	now := time.Unix(0, 0)
	table := NewTable[int](2, time.Minute)
	want := func(keys string) {
		t.Helper()
		got := ""
		for _, key := range []string{"a", "b", "c", "d"} {
			if _, ok := table.Get(now, key); ok {
				got += key
			}
		}
		if got != keys || len(table.entries) != table.order.Len() {
			t.Errorf("entries %q, want %q; %d in the map, %d in order", got, keys, len(table.entries), table.order.Len())
		}
	}
	table.Put(now, "a", 1)
	table.Put(now, "b", 1)
	table.Put(now, "a", 2)
	want("ab")
	table.Put(now, "c", 1)
	want("ac")
	now = now.Add(30 * time.Second)
	table.Put(now, "a", 3)
	now = now.Add(30 * time.Second)
	table.Put(now, "d", 1)
	if len(table.entries) != 2 {
		t.Errorf("%d entries", len(table.entries))
	}
	want("ad")
	table.DeleteFunc(func(n int) bool { return n == 3 })
	want("d")
}
