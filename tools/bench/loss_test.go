package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// losses lists the data that contestants lose when they decode and encode a message. They must not
// lose anything else: apart from the listed losses, all contestants do the same work. A place is a
// JSON pointer, with * for the elements of a list and x-* for all names that begin with x-.
var losses = map[string]map[string][]string{
	"go-sdk": {
		"tool-result":       {"lost /result/isError"}, // its value is false, here and below
		"tool-result-text":  {"lost /result/isError"},
		"tool-result-image": {"lost /result/isError"},
		"tools-list":        {"added /result/cacheScope", "added /result/ttlMs", "lost /result/tools/*/execution"},
		"resources-list":    {"added /result/cacheScope", "added /result/ttlMs"},
		"initialize":        {"lost /params/capabilities/tasks"},
		"initialize-result": {"lost /result/capabilities/tasks"},
		"unknown-members":   slices.Sorted(slices.Values(append(unknown, "lost /result/isError"))),
		"keys-reversed":     {"added /result/cacheScope", "added /result/ttlMs", "lost /result/tools/*/execution"},
		"indented":          {"added /result/cacheScope", "added /result/ttlMs", "lost /result/tools/*/execution"},
	},
	"mcp-go": {
		"tool-result":       {"lost /result/isError"},
		"tool-result-text":  {"lost /result/isError"},
		"tool-result-image": {"lost /result/isError"},
		"tools-list":        {"lost /result/tools/*/inputSchema/$schema"},
		"progress":          {"added /params/_meta"},
		"unknown-members":   slices.Sorted(slices.Values(append(unknown, "lost /result/isError"))),
		"keys-reversed":     {"lost /result/tools/*/inputSchema/$schema"},
		"indented":          {"lost /result/tools/*/inputSchema/$schema"},
	},
	"encoding-json":   {"unknown-members": unknown},
	"json-experiment": {"unknown-members": unknown},
	"goccy":           {"unknown-members": unknown},
	"goccy-tuned":     {"unknown-members": unknown},
	"sonic":           {"unknown-members": unknown},
	"sonic-tuned":     {"unknown-members": unknown},
}

// unknown are the members without a field in any struct. mcpwire keeps them.
var unknown = []string{
	"lost /result/content/*/annotations/x-*",
	"lost /result/content/*/x-*",
	"lost /result/x-*",
	"lost /x-*",
}

// sharing names the contestant whose values share memory with the text.
const sharing = "mcpwire-nocopy"

func TestContestantsLoseOnlyListedData(t *testing.T) {
	for _, m := range messages.All() {
		want := parse(t, m.Data)
		for _, c := range contestants() {
			e, err := c.enter(m)
			if err != nil {
				t.Errorf("%s, %s: %v", m.Name, c.name, err)
				continue
			}
			if e.again == nil { // a scan, or a library without types for the message
				continue
			}
			text, err := e.again(c.name != sharing)
			if err != nil {
				t.Errorf("%s, %s: %v", m.Name, c.name, err)
				continue
			}
			got := make(map[string]bool)
			differ(got, "", want, parse(t, text))
			found := slices.Sorted(maps.Keys(got))
			if listed := losses[c.name][m.Name]; !slices.Equal(found, listed) {
				t.Errorf("%s, %s:\ngot  %q\nlisted %q", m.Name, c.name, found, listed)
			}
		}
	}
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.200q", err, text)
	}
	return v
}

// differ adds the places at which got differs from want.
func differ(found map[string]bool, at string, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			found["changed "+at] = true
			return
		}
		for name := range want {
			if v, ok := got[name]; ok {
				differ(found, at+"/"+name, want[name], v)
			} else {
				found["lost "+at+"/"+shortName(name)] = true
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				found["added "+at+"/"+shortName(name)] = true
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			found["changed "+at] = true
			return
		}
		for i := range want {
			differ(found, at+"/*", want[i], got[i])
		}
	case json.Number:
		n, ok := got.(json.Number)
		if a, b := new(big.Rat), new(big.Rat); !ok || !setRat(a, want) || !setRat(b, n) || a.Cmp(b) != 0 {
			found["changed "+at] = true
		}
	default:
		if want != got {
			found["changed "+at] = true
		}
	}
}

func shortName(name string) string {
	if strings.HasPrefix(name, "x-") {
		return "x-*"
	}
	return name
}

func setRat(r *big.Rat, n json.Number) bool {
	_, ok := r.SetString(strings.ToLower(n.String()))
	return ok
}
