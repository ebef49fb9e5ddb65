package server

import (
	"math/rand/v2"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yosida95/uritemplate/v3"
)

// FuzzPattern compares patterns with the matcher of the template library, which takes more than
// linear time.
func FuzzPattern(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		template, uri := randomTemplate(r), ""
		library, err := uritemplate.New(template)
		if err != nil {
			t.Fatalf("%q: %v", template, err)
		}
		p, err := newPattern(template)
		if err != nil {
			t.Fatalf("%q: %v", template, err)
		}
		for range 10 {
			uri = randomURI(r, library)
			got, ok := p.match(uri)
			found := library.Match(uri)
			if ok != (found != nil) {
				t.Fatalf("template %q, URI %q: got a match: %v, want %v", template, uri, ok, found != nil)
			}
			want := url.Values{}
			for name, v := range found {
				want[name] = v.V
			}
			if diff := cmp.Diff(want, got); ok && diff != "" {
				t.Fatalf("template %q, URI %q (-want +got):\n%s", template, uri, diff)
			}
		}
	})
}

// randomTemplate returns a template without prefix modifiers, because the library counts their
// lengths differently.
func randomTemplate(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString("t:")
	for i := range 1 + r.IntN(3) {
		b.WriteString([]string{"", "/x", "/", "a", "-"}[r.IntN(5)])
		b.WriteString("{" + []string{"", "", "+", "#", ".", "/", ";", "?", "&"}[r.IntN(9)])
		for j := range 1 + r.IntN(3) {
			if j > 0 {
				b.WriteString(",")
			}
			b.WriteString(string(rune('a'+3*i+j)) + []string{"", "", "*"}[r.IntN(3)])
		}
		b.WriteString("}")
	}
	return b.String()
}

// randomURI returns an expansion of a template, sometimes with a text inserted.
func randomURI(r *rand.Rand, template *uritemplate.Template) string {
	values := uritemplate.Values{}
	word := func() string { return []string{"", "x", "a b", "1,2", "ü", "a.b", "x/y", "="}[r.IntN(8)] }
	for _, name := range template.Varnames() {
		switch r.IntN(4) {
		case 0:
		case 1:
			values.Set(name, uritemplate.List(word(), word(), word()))
		default:
			values.Set(name, uritemplate.String(word()))
		}
	}
	uri, _ := template.Expand(values)
	if r.IntN(3) == 0 {
		at := r.IntN(len(uri) + 1)
		uri = uri[:at] + []string{",", "&", ".", "/", "x", "%41", "a="}[r.IntN(7)] + uri[at:]
	}
	return uri
}

// Matching allocates memory linear in the length of the URI, even if it has thousands of values.
func TestMatchAllocatesLinearly(t *testing.T) {
	uri := "x:" + strings.Repeat("/a", defaultMaxURI/2-1)
	for _, template := range []string{"x:{/path*}", "x:{+path}", "x:{/a}{/b}{+c}", "x:{/path*}/end{?q*}"} {
		p, err := newPattern(template)
		if err != nil {
			t.Fatal(err)
		}
		p.match(uri) // the first match allocates memory that later ones reuse
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p.match(uri)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 512*defaultMaxURI {
			t.Errorf("%s allocates %d bytes for a URI of %d", template, used, len(uri))
		}
	}
}
