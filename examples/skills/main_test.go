package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/client/skills"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// build builds this program.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "server")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return binary
}

func TestSkills(t *testing.T) {
	c, err := client.Command(t.Context(), stdio.Command{Path: build(t), Args: []string{"skills"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := skills.New(c, skills.Options{Label: "example", Approve: func(context.Context, *skills.Entry) (bool, error) { return true, nil }})
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for e, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names += e.Name
		skill, err := s.Load(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := skill.Read(t.Context(), "templates/notes.md"); err != nil || !strings.HasPrefix(string(data), "# VERSION") {
			t.Errorf("%q, %v", data, err)
		}
	}
	if names != "release-notes" {
		t.Errorf("skills %q", names)
	}
}
