package schemasync_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/schema"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/schemasync"
)

// schemaFolder returns a temporary copy of the schema folder.
func schemaFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "schema")
	if err := os.CopyFS(dir, schema.Embedded()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// source returns a published schema, or the embedded one if the published schemas are not
// available, and reports whether it has prose.
func source(t *testing.T, rev string) (file string, published bool) {
	t.Helper()
	if spec := os.Getenv("MCPWIRE_SPEC"); spec != "" {
		return filepath.Join(spec, rev, "schema.json"), true
	}
	t.Logf("without the published schemas (set MCPWIRE_SPEC to use them): using the embedded one")
	file = filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, embedded(t, rev), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, false
}

func embedded(t *testing.T, rev string) []byte {
	t.Helper()
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func TestSyncOverAnotherRevision(t *testing.T) {
	dir := schemaFolder(t)
	file, published := source(t, "2025-11-25")
	report, err := schemasync.Sync(t.Context(), dir, "2025-06-18", file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "2025-06-18", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, embedded(t, "2025-11-25")) {
		t.Error("the file written is not the schema in canonical form")
	}
	if !report.Changed || report.Definitions != 145 || report.Fields == 0 || report.Values == 0 || report.Size != len(got) {
		t.Errorf("report %+v", report)
	}
	if published && report.PublishedSize <= report.Size {
		t.Errorf("published with prose in %d bytes, kept %d", report.PublishedSize, report.Size)
	}
	if len(report.Undocumented) > 0 {
		t.Errorf("undocumented: %v", report.Undocumented)
	}
	for _, rev := range append(schema.Revisions(), schema.Extensions()...) {
		if rev == "2025-06-18" {
			continue
		}
		if src, err := os.ReadFile(filepath.Join(dir, rev, "schema.json")); err != nil || !bytes.Equal(src, embedded(t, rev)) {
			t.Errorf("%s was touched (%v)", rev, err)
		}
	}

	again, err := schemasync.Sync(t.Context(), dir, "2025-06-18", file)
	if err != nil || again.Changed {
		t.Errorf("the second sync: changed %v, error %v", again.Changed, err)
	}
}

const small = `{"$defs": {
	"Fresh": {"description": "New.", "properties": {"title": {"type": "string"}, "colour": {"enum": ["red"]}}},
	"Result": {"properties": {"_meta": {"type": "object"}, "brandNew": {}}}
}}`

func TestSyncListsUndocumentedMembers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, small) }))
	defer server.Close()
	dir := schemaFolder(t)
	report, err := schemasync.Sync(t.Context(), dir, "2030-01-01", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range report.Undocumented {
		names = append(names, m.String())
	}
	if want := []string{"Fresh", "Fresh.colour", "Result.brandNew"}; !slices.Equal(names, want) {
		t.Errorf("undocumented %v, want %v", names, want)
	}
	var out strings.Builder
	if err := report.Print(&out); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "2030-01-01", "schema.json")
	want := fmt.Sprintf("wrote %s: 2 definitions, 4 fields, 1 values; %d bytes, %d without the prose\n"+
		"3 without documentation in docs.md:\n  Fresh\n  Fresh.colour\n  Result.brandNew\n", file, len(small), report.Size)
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

func TestSyncWithoutDocumentation(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new.json")
	if err := os.WriteFile(file, []byte(small), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := schemasync.Sync(t.Context(), dir, "ext-new", file)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(report.Undocumented); got != 6 {
		t.Errorf("%d undocumented, want all 6", got)
	}
}

func TestSyncRejectsInvalidInput(t *testing.T) {
	tests := []struct{ name, rev, src, where string }{
		{"text that is not JSON", "2030-01-01", "{\n<html>", ":2:1: "},
		{"an unknown keyword", "2030-01-01", `{"$defs": {"T": {"x-y": 1}}}`, ":1:25: /$defs/T/x-y: "},
		{"a schema without definitions", "2030-01-01", `{"type": "object"}`, "no definitions"},
		{"a revision with a slash", "../x", small, "invalid revision"},
		{"a hidden revision", ".git", small, "invalid revision"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(t.TempDir(), "in.json")
			if err := os.WriteFile(file, []byte(tt.src), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := schemasync.Sync(t.Context(), dir, tt.rev, file)
			if err == nil || !strings.Contains(err.Error(), tt.where) {
				t.Errorf("error %v, want one with %q", err, tt.where)
			}
			if entries, _ := os.ReadDir(dir); len(entries) > 0 {
				t.Errorf("the folder has %v", entries)
			}
		})
	}
}

func TestSyncOfUnreadableSources(t *testing.T) {
	if _, err := schemasync.Sync(t.Context(), t.TempDir(), "r", filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := schemasync.Sync(t.Context(), t.TempDir(), "r", server.URL); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("error %v, want a 404", err)
	}
}

func TestSyncRejectsLongFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endless.json")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1<<40); err != nil { // a sparse file, which takes no disk space
		t.Skip(err)
	}
	if _, err := schemasync.Sync(t.Context(), schemaFolder(t), "2030-01-01", file); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}
