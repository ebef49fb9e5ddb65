package main

import (
	"strings"
	"testing"
)

func TestEveryMessageIsDecoded(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"task 6f0c1c8e5b7d4a39 is working; look again every 2000 ms",
		`unknown content, kept: {"type":"hologram","depth":3}`,
		"code -32602: the task is completed already",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "*mcp.") {
		t.Error("a message is described only by its type")
	}
}
