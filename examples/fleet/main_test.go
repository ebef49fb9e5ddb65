package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestMain runs the program in place of the tests if the demo has started it as a worker.
func TestMain(m *testing.M) {
	if os.Getenv("FLEET_WORKER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	orders := 100
	if testing.Short() {
		orders = 20
	}
	var out strings.Builder
	drawing, err := demo(t.Context(), &out, orders)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(out.String())
	if n := strings.Count(string(drawing), "<rect"); n < orders*items {
		t.Errorf("the drawing has %d bars for %d items", n, orders*items)
	}
}

// The snippets of docs/fleet.md are parts of this program.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(snippets) < 2 {
		t.Errorf("%d snippets", len(snippets))
	}
	for _, s := range snippets {
		indented := regexp.MustCompile("(?m)^(.)").ReplaceAllString(s[1], "\t$1")
		if !strings.Contains(string(program), indented) {
			t.Errorf("main.go does not have\n%s", indented)
		}
	}
}
