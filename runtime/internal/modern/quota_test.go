package modern

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// Clients without a principal have the limit of one principal together, and those of one network
// half of it.
func TestQuotaLimitsEachNetwork(t *testing.T) {
	q := &Quota{Limit: Size{Count: 4, Bytes: 100}}
	eve, ann := network.Of(&http.Request{RemoteAddr: "203.0.113.7:1"}, nil), network.Of(&http.Request{RemoteAddr: "198.51.100.1:1"}, nil)
	for _, step := range []struct {
		account string
		size    Size
		want    error
	}{{eve, Size{2, 10}, nil}, {eve, Size{1, 1}, ErrCount}, {eve, Size{0, 41}, ErrBytes}, {ann, Size{1, 50}, nil}, {"", Size{1, 41}, ErrBytes}, {"", Size{1, 40}, nil}, {ann, Size{1, 0}, ErrCount}, {"bob", Size{4, 100}, nil}} {
		if err := q.Reserve(step.account, step.size); err != step.want {
			t.Errorf("Reserve(%q, %v) = %v, want %v", step.account, step.size, err, step.want)
		}
	}
	q.Release(ann, Size{1, 50})
	q.Release("bob", Size{4, 100})
	if diff := cmp.Diff(map[string]Size{eve: {2, 10}, "": {3, 50}}, q.Used()); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	q.Release(eve, Size{2, 10})
	q.Release("", Size{1, 40})
	if used := q.Used(); len(used) > 0 {
		t.Errorf("used %v after the end of all subscriptions", used)
	}
}
