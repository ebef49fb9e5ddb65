package oauth_test

import (
	"net/http"
	"net/url"
	"testing"
)

// BenchmarkAuthorize adds a cached token to a request.
func BenchmarkAuthorize(b *testing.B) {
	w := newWorld(b, nil)
	if status, err := w.call(); status != http.StatusOK || err != nil {
		b.Fatal(status, err)
	}
	op := tool
	op.Server, _ = url.Parse(serverURL)
	req, err := http.NewRequest(http.MethodPost, serverURL, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.a.Authorize(req, op); err != nil {
			b.Fatal(err)
		}
	}
}
