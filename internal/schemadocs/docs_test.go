package schemadocs

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder is that of package schema.
const folder = "../../schema"

const sampleDocs = `How to edit this file.

# *
- _meta: Default of _meta.
- name: Default of name.
- name (new): Default of name in new.
- mode=fast: Default of fast.
- io.mcp/task: Default of a key with a dot.

# Level
Level is an enum
of two lines.

- =low: The low one.
- =high=er (new): The value has a sign in it.

# Task
Task is work.

- ttl: How long: in
  milliseconds.
- ttl (old): How long in old.
- opts.name: The nested name.
- opts.list[].mode=slow: The slow one.

# Task (ext)
Task differs.

- ttl: How long in ext.
`

func TestDocsLookup(t *testing.T) {
	d, err := ParseDocs([]byte(sampleDocs))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, got, want string }{
		{"a definition", d.Definition("new", "Task"), "Task is work."},
		{"a definition for no revision", d.Definition("", "Task"), "Task is work."},
		{"a definition's section for one revision", d.Definition("ext", "Task"), "Task differs."},
		{"a text over two lines", d.Definition("", "Level"), "Level is an enum of two lines."},
		{"an unknown definition", d.Definition("", "None"), ""},
		{"a field", d.Field("new", "Task", "ttl"), "How long: in milliseconds."},
		{"a field's row for one revision", d.Field("old", "Task", "ttl"), "How long in old."},
		{"a field in a section for one revision", d.Field("ext", "Task", "ttl"), "How long in ext."},
		{"a field for no revision", d.Field("", "Task", "ttl"), "How long: in milliseconds."},
		{"a nested field", d.Field("new", "Task", "opts.name"), "The nested name."},
		{"a default", d.Field("old", "Task", "name"), "Default of name."},
		{"a default for one revision", d.Field("new", "Task", "name"), "Default of name in new."},
		{"a default by the last segment", d.Field("old", "Other", "a.b[].name"), "Default of name."},
		{"a default whose name has dots", d.Field("old", "Task", "_meta.io.mcp/task"), "Default of a key with a dot."},
		{"no default by an earlier segment", d.Field("old", "Task", "_meta.other"), ""},
		{"no default by a part of a name", d.Field("old", "Task", "surname"), ""},
		{"a value of the definition", d.Value("new", "Level", "", "low"), "The low one."},
		{"a value with an equals sign", d.Value("new", "Level", "", "high=er"), "The value has a sign in it."},
		{"a value of another revision", d.Value("old", "Level", "", "high=er"), ""},
		{"a value of a field", d.Value("new", "Task", "opts.list[].mode", "slow"), "The slow one."},
		{"a value's default", d.Value("new", "Task", "opts.mode", "fast"), "Default of fast."},
		{"a value is no field", d.Field("new", "Task", "opts.mode"), ""},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
}

func TestDocsUndocumented(t *testing.T) {
	d, err := ParseDocs([]byte(sampleDocs))
	if err != nil {
		t.Fatal(err)
	}
	missing := d.Undocumented("old", []Member{
		{Definition: "Task"}, {Definition: "Task", Path: "ttl"}, {Definition: "Task", Path: "new"},
		{Definition: "Level", Value: "new", IsValue: true}, {Definition: "New"},
	})
	if want := []Member{{Definition: "Task", Path: "new"}, {Definition: "New"}}; !slices.Equal(missing, want) {
		t.Errorf("got %v, want %v", missing, want)
	}
}

func TestParseDocsRefuses(t *testing.T) {
	tests := []struct {
		name, src string
		line      int
	}{
		{"a smaller heading", "# A\nText.\n\n## B\n", 4},
		{"a heading without a name", "# \n", 1},
		{"a heading of two words", "# A b\n", 1},
		{"a heading with an open parenthesis", "# A (x\n", 1},
		{"a heading with an empty revision", "# A ()\n", 1},
		{"a second paragraph", "# A\nText.\n\nMore.\n", 4},
		{"an indented text of a definition", "# A\nText\n  more.\n", 3},
		{"a row's text that is not indented", "# A\nText.\n\n- a: Text\nmore.\n", 5},
		{"a second paragraph in a row", "# A\nText.\n\n- a: Text.\n\n  More.\n", 6},
		{"a row without a colon", "# A\nText.\n\n- a text\n", 4},
		{"a row with a space in its path", "# A\n- a text: b\n", 2},
		{"a row without a path", "# A\n- : b\n", 2},
		{"a row without a text", "# A\n- a:\n- b: Text.\n", 2},
		{"a last row without a text", "# A\n- b: Text.\n- a:\n\n", 3},
		{"a row for a revision in such a section", "# A (x)\n- a (y): Text.\n", 2},
		{"a row given twice", "# A\n- a: Text.\n- b: Text.\n- a: Text.\n", 4},
		{"a row given in two sections", "# A\n- a (x): Text.\n# A (x)\n- a: Text.\n", 4},
		{"a definition given twice", "# A\nText.\n\n# A\nText.\n", 4},
		{"a list with stars", "# A\nText.\n\n* a: Text.\n", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseDocs([]byte(tt.src))
			if e, ok := errors.AsType[*Error](err); !ok || e.Line != tt.line {
				t.Errorf("error %v, want it on line %d", err, tt.line)
			}
		})
	}
}

// Every definition and field of every revision is documented. Each row of docs.md has a subject in
// some revision and is shown to readers.
func TestDocsAreComplete(t *testing.T) {
	text, err := os.ReadFile(folder + "/docs.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := ParseDocs(text)
	if err != nil {
		t.Fatal(err)
	}
	serves := map[row]bool{}
	files, err := filepath.Glob(folder + "/*/schema.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("schemas %q: %v", files, err)
	}
	for _, file := range files {
		rev := filepath.Base(filepath.Dir(file))
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		members, err := Members(src)
		if err != nil {
			t.Fatalf("%s/schema.json:%v", rev, err)
		}
		for _, m := range docs.Undocumented(rev, members) {
			t.Errorf("%s: %s has no documentation", rev, m)
		}
		for _, m := range members {
			serves[docs.serving(rev, m)] = true
		}
	}
	var idle []row
	for r := range docs.rows {
		if !serves[r] {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b row) int { return cmp.Compare(docs.rows[a].line, docs.rows[b].line) })
	for _, r := range idle {
		t.Errorf("docs.md:%d: no definition, field or value takes its text from %q (revision %q)", docs.rows[r].line, r.member, r.revision)
	}
}

func TestDocsSectionsAreSorted(t *testing.T) {
	src, err := os.ReadFile(folder + "/docs.md")
	if err != nil {
		t.Fatal(err)
	}
	last, n := "", 0
	for line := range strings.Lines(string(src)) {
		n++
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !ok {
			continue
		}
		key := strings.ToLower(name) // "task (ext-tasks)" sorts between "task" and "taskstatus"
		if key < last {
			t.Errorf("docs.md:%d: %s stands behind its place", n, name)
		}
		last = key
	}
}
