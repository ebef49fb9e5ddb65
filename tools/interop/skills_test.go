package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	wire "github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/client/skills"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// trapsFields is a front matter that parsers of YAML understand in different ways, with its line
// breaks of Windows.
var trapsFields = strings.ReplaceAll(`---
name: traps
description: >-
  Long text
  on two lines: done
license: 0123
big: 12345678901234567890123
float: 1e3
underscore: 1_000
yes: yes
date: 2024-01-01
flow: {a: [1, "b"], c: null}
list:
- x
- y: z
  w: |+
    keep

metadata:
  version: "1.0"
---
Body
`, "\n", "\r\n")

// writeTraps returns a folder with two skills, one in the other, that are hard to serve.
func writeTraps(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"traps/SKILL.md":             "\ufeff" + trapsFields,
		"traps/inner/SKILL.md":       "---\nname: inner\ndescription: d\n---\n",
		"traps/ref/lines.txt":        "a\r\nb",
		"traps/ref/deep/raw.bin":     "\xff\x00",
		"traps/ref/Q&A ü (1)+x=y.md": "q",
		"traps/ref/empty":            "",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The client of the official SDK verifies all files of a server.
func TestTypeScriptClientReadsSkills(t *testing.T) {
	needSDK(t)
	program := filepath.Join(t.TempDir(), "skills")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/mcpwire/mcpwire/examples/skills").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := `skill://traps/SKILL.md true 6 3 {"name":"traps","description":"Long text on two lines: done","license":123,"big":1.2345678901234568e+22,` +
		`"float":1000,"underscore":"1_000","yes":"yes","date":"2024-01-01","flow":{"a":[1,"b"],"c":null},"list":["x",{"y":"z","w":"keep\n\n"}],"metadata":{"version":"1.0"}}
skill://traps/inner/SKILL.md true 1 1 {"name":"inner","description":"d"}
done
`
	dir := writeTraps(t)
	for _, mode := range []string{"legacy", "auto"} {
		out, err := exec.CommandContext(t.Context(), "node", "typescript/skills-client.mjs", mode, program, dir).CombinedOutput()
		if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", mode, err, diff)
		}
	}
}

// Our client verifies all files of a server of the official SDK.
func TestSkillsOfTypeScriptServer(t *testing.T) {
	needSDK(t)
	dir := writeTraps(t)
	for rev, args := range map[mcp.Revision][]string{mcp.Revision20251125: {dir, "sessions"}, mcp.Revision20260728: {dir}} {
		c, err := client.Command(t.Context(), node("skills-server.mjs", args...)(""), &client.Options{Session: session.Options{Revisions: []mcp.Revision{rev}}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := skills.New(c, skills.Options{Label: "typescript", Approve: func(context.Context, *skills.Entry) (bool, error) { return true, nil }})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for e, err := range s.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			skill, err := s.Load(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			list := e.Resources.(*wire.SkillResourcesList).Value
			for _, f := range list {
				if _, err := skill.Read(t.Context(), f.URI); err != nil {
					t.Error(err)
				}
			}
			children, err := skill.Dir(t.Context(), ".")
			if err != nil {
				t.Error(err)
			}
			got = append(got, fmt.Sprint(e.URI, " ", len(list), " ", len(children)))
		}
		if diff := cmp.Diff([]string{"skill://traps/SKILL.md 6 3", "skill://traps/inner/SKILL.md 1 1"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", rev, diff)
		}
	}
}
