package mcp_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
)

// The examples in the specification decode as the type that their folder names, find no
// fault in the revision they are from, and come back as they were.
func TestOfficialExamples(t *testing.T) {
	spec := os.Getenv("MCPWIRE_SPEC")
	const rev = mcp.Revision20260728
	files, err := filepath.Glob(filepath.Join(spec, string(rev), "examples", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the examples are not here: set MCPWIRE_SPEC to a folder with 2026-07-28/examples")
	}
	for _, file := range files {
		definition := filepath.Base(filepath.Dir(file))
		t.Run(definition+"/"+filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v := mcp.New(definition)
			if v == nil {
				t.Fatalf("no definition %s", definition)
			}
			if err := codec.Unmarshal(text, v); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(mcp.Validate(rev, definition, text), v.Validate(rev)); err != nil {
				t.Error(err)
			}
			out, err := codec.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if d := oracle.Diff(text, out); d != "" {
				t.Errorf("changed on the way: %s\n%s", d, out)
			}
			again := mcp.New(definition)
			if err := codec.Unmarshal(out, again); err != nil {
				t.Fatal(err)
			}
			if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
				t.Errorf("no fixed point (%v):\n%s\n%s", err, out, out2)
			}
		})
	}
	t.Logf("%d examples", len(files))
}
