package taskrules_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Relate adds the related task to _meta and leaves all other bytes as they are.
//
// Proves TASK-43.
func TestRelate(t *testing.T) {
	const m = `"io.modelcontextprotocol/related-task":{"taskId":"T"}`
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", ``, `{"_meta":{` + m + `}}`},
		{"empty", `{}`, `{"_meta":{` + m + `}}`},
		{"no meta", `{"content":[],"x":1.0}`, `{"_meta":{` + m + `},"content":[],"x":1.0}`},
		{"white space", " { \"a\" : 1e2 } ", " {\"_meta\":{" + m + "}, \"a\" : 1e2 } "},
		{"empty meta", `{"a":1,"_meta":{},"b":2}`, `{"a":1,"_meta":{` + m + `},"b":2}`},
		{"other meta", `{"_meta":{"k":[{}]},"b":2}`, `{"_meta":{` + m + `,"k":[{}]},"b":2}`},
		{"other task", `{"_meta":{"k":1,"io.modelcontextprotocol/related-task":{"taskId":"other"},"l":2}}`, `{"_meta":{"k":1,` + m + `,"l":2}}`},
		{"meta is null", `{"_meta":null}`, `{"_meta":{` + m + `}}`},
		{"escaped name", `{"\u005fmeta":{"k":1}}`, `{"\u005fmeta":{` + m + `,"k":1}}`},
		{"nested meta", `{"content":[{"_meta":{"k":1}}]}`, `{"_meta":{` + m + `},"content":[{"_meta":{"k":1}}]}`},
	} {
		got, err := taskrules.Relate([]byte(tt.in), "T")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\n got %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
	for _, in := range []string{`[]`, `null`, `{"a":1`, `{}x`, `"s"`} {
		if got, err := taskrules.Relate([]byte(in), "T"); err == nil {
			t.Errorf("Relate(%s) = %s, want an error", in, got)
		}
	}
}
