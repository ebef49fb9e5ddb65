package wire_test

import (
	"encoding/json"
	"strconv"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
)

// Copies of a struct share an Extra; goroutines that change and write their own copies do not
// affect each other.
func TestConcurrentUseOfCopies(t *testing.T) {
	v := mustDecode(t, `{"id":1,"name":"n","a":[1],"b":{"c":2},"count":99999999999999999999}`)
	want := encoded(t, &v)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			own := v
			for range 100 {
				own.Extra.Set("own", json.RawMessage(strconv.Itoa(i)))
				own.Extra.Delete("a")
				own.Extra.SetAbsent(0)
				if got, _ := own.Extra.Get("own"); string(got) != strconv.Itoa(i) {
					t.Errorf("goroutine %d sees %s", i, got)
				}
				if out, err := codec.Marshal(&v); err != nil || string(out) != want {
					t.Errorf("goroutine %d wrote %s, %v", i, out, err)
				}
			}
		})
	}
	group.Wait()
}
