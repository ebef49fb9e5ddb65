package toolschema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// The official tests of JSON Schema pass in all dialects, except for schemas that refer to
// others, or have a dialect of their own.
func TestOfficialSuite(t *testing.T) {
	suite := os.Getenv("MCPWIRE_JSON_SCHEMA_SUITE")
	if suite == "" {
		t.Skip("set MCPWIRE_JSON_SCHEMA_SUITE to a copy of the official JSON Schema test suite")
	}
	for i, folder := range []string{"draft2020-12", "draft2019-09", "draft7", "draft6", "draft4"} {
		t.Run(folder, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(suite, "tests", folder, "*.json"))
			if err != nil || len(files) == 0 {
				t.Fatalf("no files: %v", err)
			}
			cases, refused := 0, 0
			for _, file := range files {
				src, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var groups []any
				if err := codec.Unmarshal(src, value.Of(&groups)); err != nil {
					t.Fatal(err)
				}
				for _, g := range groups {
					group := g.(map[string]any)
					list := group["tests"].([]any)
					object, ok := group["schema"].(map[string]any)
					if !ok && i > 0 {
						continue // a bool names no dialect
					}
					if ok && object["$schema"] == nil {
						object["$schema"] = Dialects()[i]
					}
					s, err := Compile(encoded(t, group["schema"]))
					if err != nil {
						if text := err.Error(); !strings.Contains(text, "references to other schemas are not supported") && !strings.Contains(text, "schema dialect") {
							t.Errorf("%s: %v: %v", filepath.Base(file), group["description"], err)
						}
						refused += len(list)
						continue
					}
					for _, c := range list {
						test := c.(map[string]any)
						if got := faults(t, s, string(encoded(t, test["data"]))); (got == "") != test["valid"].(bool) {
							t.Errorf("%s: %v: %v: got %q", filepath.Base(file), group["description"], test["description"], got)
						}
						cases++
					}
				}
			}
			t.Logf("%d cases, %d others with a schema that is not supported", cases, refused)
		})
	}
}

// encoded returns the JSON text of a decoded value.
func encoded(t *testing.T, v any) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
