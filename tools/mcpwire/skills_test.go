package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSkills(t *testing.T) {
	server := serveEverything(t)
	const uri = "skill://greeting/SKILL.md"
	for _, test := range []struct{ args, out, errs string }{
		{"list SERVER", uri + "  greeting\n    Greets a person", ""},
		{"list -json SERVER", `{"frontmatter":{"name":"greeting",`, ""},
		{"get SERVER " + uri, "---\nname: greeting\n", ""},
		{"get -json SERVER " + uri, `{"frontmatter":{"name":"greeting",`, ""},
		{"get SERVER " + uri + " references/GREETINGS.md", "| language | greeting |\n", ""},
		{"get SERVER " + uri + " ../x", "", `unlisted: "../x" is no file of the skill`},
		{"get SERVER skill://none/SKILL.md", "", "unknown to the server"},
		{"verify SERVER", uri + "  2 files, ", ""},
		{"verify", "", "missing argument; want SERVER"},
		{"get SERVER", "", "missing argument; want SERVER URI [FILE]"},
		{"verify SERVER x", "", `unexpected argument "x"`},
		{"verify -dir x SERVER", "", "want -dir or SERVER, not both"},
	} {
		args := strings.Fields("skills " + strings.ReplaceAll(test.args, "SERVER", server))
		_, out, errs := mcpwire(t, args...)
		if !strings.HasPrefix(out, test.out) || !strings.Contains(errs, test.errs) || (test.errs == "") != (errs == "") {
			t.Errorf("%s: output %q, errors %q", test.args, out, errs)
		}
	}
}

func TestVerifyFolderOfSkills(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good/SKILL.md": "---\nname: good\ndescription: d\n---\n", "bad/SKILL.md": "---\nname: other\ndescription: d\n---\n"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := mcpwire(t, "skills", "verify", "-dir", dir)
	if code != exitFault || out != "skill://good/SKILL.md\n" || !strings.Contains(errs, `folder "bad"`) {
		t.Errorf("exit %d, output %q, errors %q", code, out, errs)
	}
	if err := os.RemoveAll(filepath.Join(dir, "bad")); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := mcpwire(t, "skills", "verify", "-dir", dir); code != exitOK || errs != "" {
		t.Errorf("exit %d, errors %q", code, errs)
	}
}
