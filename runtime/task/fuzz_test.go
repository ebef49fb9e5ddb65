package task_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Relate returns an object with the related task in its _meta and all other members unchanged.
// Relating the object again changes nothing.
func FuzzRelate(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "_meta" : { "k" : [ ] } , "b" : 1e400 } `, `{"_meta":null}`, `{"_meta":{"io.modelcontextprotocol/related-task":7}}`, `{"\u005fmeta":{}}`, `{"_MetA":null}`, `[]`, `{"a":`} {
		f.Add(s, "T")
	}
	f.Fuzz(func(t *testing.T, object, id string) {
		related, err := taskrules.Relate([]byte(object), id)
		if err != nil {
			return
		}
		if err := codec.Valid(related); err != nil {
			t.Fatalf("Relate(%q) = %q: %v", object, related, err)
		}
		// Maps, unlike struct fields, distinguish _meta from _Meta.
		tag := members(t, []byte(members(t, []byte(members(t, related)["_meta"]))[taskrules.RelatedTask]))
		var got string
		if err := json.Unmarshal([]byte(tag["taskId"]), &got); err != nil || got != id {
			t.Fatalf("Relate(%q) = %q, %v", object, related, err)
		}
		again, err := taskrules.Relate(related, id)
		if err != nil || !bytes.Equal(again, related) {
			t.Fatalf("Relate(%q) = %q, %v", related, again, err)
		}
		if object == "" {
			return
		}
		before, after := members(t, []byte(object)), members(t, related)
		delete(before, "_meta")
		delete(after, "_meta")
		checkEqual(t, "the other members", before, after)
	})
}

func members(t *testing.T, object []byte) map[string]string {
	t.Helper()
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(object, &raw); err != nil {
		t.Fatal(err)
	}
	m := map[string]string{}
	for name, value := range raw {
		m[name] = string(value)
	}
	return m
}
