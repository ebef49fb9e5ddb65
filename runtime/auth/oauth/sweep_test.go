package oauth

import (
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnusedServersAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		u := &url.URL{Scheme: "https", Host: "mcp.example"}
		for i := range 10 * minSweep {
			s, err := a.For(strconv.Itoa(i)).server(u)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := a.For(strconv.Itoa(i)).server(u); again != s || err != nil {
				t.Fatalf("another state, %v", err)
			}
			time.Sleep(2 * time.Second)
		}
		if n, w := len(a.shared.servers), len(a.shared.written); n > 3*minSweep || w > 6*minSweep {
			t.Errorf("%d servers and %d written URLs are kept", n, w)
		}
	})
}
