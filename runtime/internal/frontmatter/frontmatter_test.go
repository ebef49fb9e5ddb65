package frontmatter_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/runtime/internal/frontmatter"
)

// example is a row of the corpus. An accepted text has the value that npm package yaml 2.9.1 gives
// it by the core schema, apart from integers that a double does not hold. That package accepts some
// of the rejected texts.
type example struct {
	YAML  string `json:"yaml"`
	JSON  string `json:"json"`
	Error string `json:"error"`
}

func corpus(t testing.TB) (list []example) {
	t.Helper()
	text, err := os.ReadFile("testdata/corpus.json")
	if err == nil {
		err = codec.Unmarshal(text, value.Of(&list))
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func file(yaml string) []byte { return []byte("---\n" + yaml + "\n---\nbody\n") }

func TestCorpus(t *testing.T) {
	for _, e := range corpus(t) {
		object, body, err := frontmatter.Parse(file(e.YAML))
		got := example{YAML: e.YAML, JSON: string(object)}
		if err != nil {
			got.Error = err.Error()
		} else if string(body) != "body\n" {
			t.Errorf("%q: body %q", e.YAML, body)
		}
		if got != e {
			t.Errorf("got %q, want %q", got, e)
		}
	}
}

func TestDelimiters(t *testing.T) {
	for text, want := range map[string]string{
		"---\na: 1\n---\nbody":         "body",
		"---\na: 1\n---":               "",
		"---\r\na: 1\r\n---\r\nbody\r": "body\r",
		"\ufeff---\na: 1\n--- \t\nb":   "b",
		"":                             "error",
		"---":                          "error",
		"a: 1\n---\n":                  "error",
		"---\na: 1\n":                  "error",
		" ---\na: 1\n---\n":            "error",
		"--- \na: 1\n---\n":            "error",
		"---\na: 1\n ---\n":            "error",
		"---\na: 1\rb: 2\n---\n":       "error",
		"---\na: \xff\n---\n":          "error",
	} {
		object, body, err := frontmatter.Parse([]byte(text))
		switch {
		case (err != nil) != (want == "error"):
			t.Errorf("%q: got %v", text, err)
		case err == nil && (string(object) != `{"a":1}` || string(body) != want):
			t.Errorf("%q: got %s, %q", text, object, body)
		}
	}
}

// The time is linear: a quadratic parser would take minutes.
func TestLongTexts(t *testing.T) {
	const n = 1 << 17
	for _, text := range []string{
		"x: " + strings.Repeat("a ", n),
		"x: [" + strings.Repeat("a,", n) + "]",
		"x: \"" + strings.Repeat("a \n  ", n) + "\"",
		"x: >\n" + strings.Repeat("  a\n\n", n),
		"x: a\n" + strings.Repeat("  a\n", n),
		"x:\n" + strings.Repeat("- a\n", n),
		"x: 0x" + strings.Repeat("f", n),
		"x: " + strings.Repeat("9", n),
		"x: " + strings.Repeat("[", n),
		strings.Repeat("- ", n),
	} {
		frontmatter.Parse(file(text)) // the result does not matter
	}
}

// The result of every accepted text is a JSON object that package codec accepts, with its rules for
// duplicate members and depth. It does not depend on the kind of the line breaks.
func FuzzParse(f *testing.F) {
	for _, e := range corpus(f) {
		f.Add(file(e.YAML))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		object, body, err := frontmatter.Parse(text)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := codec.Unmarshal(object, value.Of(&members)); err != nil || members == nil {
			t.Fatalf("%q: %s: %v", text, object, err)
		}
		head := text[:len(text)-len(body)]
		if bytes.Contains(head, []byte("\r")) {
			return
		}
		again, _, err := frontmatter.Parse(append(bytes.ReplaceAll(head, []byte("\n"), []byte("\r\n")), body...))
		if err != nil || string(again) != string(object) {
			t.Errorf("%q: %s, with CR LF %s, %v", text, object, again, err)
		}
	})
}
