package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mcpwire runs the command line and returns its exit code and output.
func mcpwire(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), streams{strings.NewReader(""), &out, &errs}, args)
	return code, out.String(), errs.String()
}

func TestEveryCommandHelpHasExample(t *testing.T) {
	for _, c := range commands() {
		for _, h := range []string{"-h", "-help", "--help"} {
			code, out, errs := mcpwire(t, append(strings.Fields(c.name), h)...)
			_, example, _ := strings.Cut(out, "\nExample")
			if code != exitOK || errs != "" || !strings.HasPrefix(out, "usage: mcpwire "+c.name) || !strings.Contains(example, "mcpwire "+c.name) {
				t.Errorf("%s %s: exit %d, errors %q, help:\n%s", c.name, h, code, errs, out)
			}
		}
	}
}

func TestOverviewListsEveryCommand(t *testing.T) {
	for _, h := range []string{"-h", "help"} {
		code, out, errs := mcpwire(t, h)
		if code != exitOK || errs != "" {
			t.Errorf("%s: exit %d, errors %q", h, code, errs)
		}
		for _, c := range commands() {
			if !strings.Contains(out, "mcpwire "+c.name) || !strings.Contains(out, c.short) {
				t.Errorf("%s does not list %s", h, c.name)
			}
		}
	}
	code, out, _ := mcpwire(t, "schema", "-h")
	if code != exitOK || !strings.Contains(out, "schema sync") || !strings.Contains(out, "schema diff") || strings.Contains(out, "mcpwire version") {
		t.Errorf("schema -h: exit %d\n%s", code, out)
	}
}

func TestInvalidUsage(t *testing.T) {
	for _, args := range []string{
		"", "schema", "nonsense", "schema nonsense", "version 1", "version -x",
		"schema sync", "schema sync x.json", "schema sync -rev 2030-01-01", "schema sync -rev a/b x.json", "schema sync -rev r x.json y.json",
		"schema diff", "schema diff 2025-06-18", "schema diff 1 2 3", "schema diff -y 1 2", "schema diff 1 2 -y", "schema diff 1 -- 2 -dir x",
	} {
		t.Run(args, func(t *testing.T) {
			code, out, errs := mcpwire(t, strings.Fields(args)...)
			if code != exitUsage || out != "" || errs == "" {
				t.Errorf("exit %d, output %q, errors %q", code, out, errs)
			}
		})
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "-b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "schema.json"), []byte(tinySchema), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"-dir DIR a -- -b", "a -dir DIR -- -b", "-dir DIR -- a -b", "a a -dir DIR"} {
		code, out, errs := mcpwire(t, append([]string{"schema", "diff"}, strings.Fields(strings.ReplaceAll(args, "DIR", dir))...)...)
		if code != exitOK || errs != "" || !strings.Contains(out, ": 0 breaking") {
			t.Errorf("%s: exit %d, errors %q, output:\n%s", args, code, errs, out)
		}
	}
}

func TestHelpCommand(t *testing.T) {
	_, want, _ := mcpwire(t, "schema", "diff", "-h")
	if code, out, errs := mcpwire(t, "help", "schema", "diff"); code != exitOK || out != want || errs != "" {
		t.Errorf("exit %d, errors %q, output:\n%s", code, errs, out)
	}
	if code, _, errs := mcpwire(t, "task", "lst"); code != exitUsage || !strings.Contains(errs, `unknown command "task lst"`) || !strings.Contains(errs, "mcpwire task list") {
		t.Errorf("exit %d, errors:\n%s", code, errs)
	}
}

func TestVersion(t *testing.T) {
	code, out, errs := mcpwire(t, "version")
	if code != exitOK || errs != "" || !strings.HasPrefix(out, "mcpwire ") || !strings.Contains(out, "2025-11-25") || !strings.Contains(out, "ext-tasks") {
		t.Errorf("exit %d, errors %q, output:\n%s", code, errs, out)
	}
}

const tinySchema = `{"$defs": {"T": {"description": "Prose.", "properties": {"a": {"type": "string"}}}}}`

func TestSchemaSync(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "published.json")
	if err := os.WriteFile(file, []byte(tinySchema), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := mcpwire(t, "schema", "sync", "-rev", "2030-01-01", "-dir", dir, file)
	if code != exitOK || errs != "" || !strings.Contains(out, "1 definitions, 1 fields") || !strings.Contains(out, "\n  T.a\n") {
		t.Errorf("exit %d, errors %q, output:\n%s", code, errs, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "2030-01-01", "schema.json")); err != nil {
		t.Error(err)
	}

	if err := os.WriteFile(file, []byte(`{"$defs": {"T": {"odd": 1}}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs = mcpwire(t, "schema", "sync", "-rev", "2030-01-01", "-dir", dir, file)
	if want := "mcpwire schema sync: " + file + ":1:25: /$defs/T/odd: "; code != exitFault || out != "" || !strings.HasPrefix(errs, want) {
		t.Errorf("exit %d, output %q, errors %q, want %q", code, out, errs, want)
	}
	if code, _, _ := mcpwire(t, "schema", "sync", "-rev", "r", filepath.Join(dir, "none.json")); code != exitFault {
		t.Errorf("missing file: exit %d", code)
	}
}

func TestSchemaDiff(t *testing.T) {
	code, out, errs := mcpwire(t, "schema", "diff", "2025-06-18", "2025-11-25")
	if code != exitOK || errs != "" || !strings.HasPrefix(out, "2025-06-18 → 2025-11-25: ") {
		t.Errorf("exit %d, errors %q, output:\n%s", code, errs, out)
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "2030-01-01", "schema.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(tinySchema), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"schema", "diff", file, file}, {"schema", "diff", "-dir", dir, "2030-01-01", "2030-01-01"}} {
		code, out, errs := mcpwire(t, args...)
		if code != exitOK || errs != "" || !strings.Contains(out, ": 0 breaking, 0 widened, 0 added, 0 without effect") {
			t.Errorf("%q: exit %d, errors %q, output:\n%s", args, code, errs, out)
		}
	}
	code, out, errs = mcpwire(t, "schema", "diff", "2025-06-18", "2099-01-01")
	if code != exitFault || out != "" || !strings.Contains(errs, "2025-11-25") {
		t.Errorf("unknown revision: exit %d, output %q, errors %q", code, out, errs)
	}
}

// fullWriter is a writer that always fails.
type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestFailedWriteFailsCommand(t *testing.T) {
	server := serveEverything(t)
	for _, args := range [][]string{
		{"tools", server}, {"tools", "-json", server}, {"resources", server}, {"prompts", server}, {"call", server, "add", "a=1", "b=2"},
	} {
		var errs strings.Builder
		if code := run(t.Context(), streams{strings.NewReader(""), fullWriter{}, &errs}, args); code != exitFault || !strings.Contains(errs.String(), "no space") {
			t.Errorf("%q: exit %d, errors %q", args, code, &errs)
		}
	}
}

func TestQuotedWordsSurviveShell(t *testing.T) {
	for word, want := range map[string]string{
		"7f3a-B_c.d/e:f=g@h": "7f3a-B_c.d/e:f=g@h",
		"":                   "''",
		"a b":                "'a b'",
		"it's":               `'it'\''s'`,
		"-x":                 "-- -x",
		"-x;y":               "-- '-x;y'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("quoted(%q) is %s, want %s", word, got, want)
		}
	}
	for c := range rune(0x80) {
		word := "x" + string(c)
		out, err := exec.Command("sh", "-c", "printf %s "+quoted(word)).Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip(err)
		}
		if c != 0 && (err != nil || string(out) != word) {
			t.Errorf("a shell reads %q from %q (%v)", out, word, err)
		}
	}
}
