package main

import (
	"strings"
	"testing"
)

func TestMixedLoadLosesNothing(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-sessions", "10", "-modern", "40", "-rate", "400", "-time", "500ms"}, &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), " pieces of work\n"); got != samples || !strings.Contains(out.String(), "shut down: ") {
		t.Errorf("printed:\n%s", &out)
	}
}

func TestLoadPrintsSamples(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-sessions", "20", "-rate", "100", "-time", "100ms"}, &out); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(out.String(), " tasks\n"); got != samples || !strings.Contains(out.String(), "shut down: ") {
		t.Errorf("printed:\n%s", &out)
	}
}
