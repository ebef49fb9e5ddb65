package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root of the module, from this package.
const root = "../.."

func TestEveryMustHasTest(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	tests, err := proofs(root)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, d := range docs {
		for _, r := range d.rows {
			if known[r.ID] {
				t.Errorf("duplicate id %s", r.ID)
			}
			known[r.ID] = true
			switch tested := len(tests[r.ID]) > 0; {
			case r.Host != "" && tested:
				t.Errorf("%v prove %s, but its row has host: %s", tests[r.ID], r.ID, r.Host)
			case r.Host == "" && r.must() && !tested:
				t.Errorf("no test proves %s: %s", r.ID, r.Text)
			}
		}
	}
	for id, by := range tests {
		if !known[id] {
			t.Errorf("%v prove the unknown requirement %s", by, id)
		}
	}
}

func TestPagesAreUpToDate(t *testing.T) {
	list, err := pages(root)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range list {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date, run go generate (-want +got):\n%s", file, diff)
		}
	}
}

func TestProofsAreFoundInAndAboveTests(t *testing.T) {
	dir := t.TempDir()
	src := `package p

// TestA tests.
//
// Proves A-1, M-A-2
// and B-03.
func TestA(t *testing.T) {
	// Proves A-1.
	for range rows {
		// Proves C-4.
	}
	// It Proves D-5. This proves E-6.
}

var cases = []testCase{
	{name: "one", run: func(c *check) {
		// Proves A-1.
	}},
	{name: "two", run: func(c *check) {
		for _, row := range []row{{name: "inner"}} {
			// Proves F-7.
		}
	}},
}
`
	if err := os.WriteFile(filepath.Join(dir, "p_test.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := proofs(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, one, two := proof{".", "TestA"}, proof{".", `"one"`}, proof{".", `"two"`}
	if diff := cmp.Diff(map[string][]proof{"A-1": {a, one}, "M-A-2": {a}, "B-03": {a}, "C-4": {a}, "F-7": {two}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
