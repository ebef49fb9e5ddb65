package mcpwire_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/sdklimits"
	"github.com/mcpwire/mcpwire/internal/slowtest"
)

var update = flag.Bool("update", false, "rewrite the sections of docs/howto/embedding.md that come from elsewhere")

// embeddingImports are the packages that snippets of docs/howto/embedding.md may use.
var embeddingImports = []string{
	"context", "encoding/json", "fmt", "net/http", "time",
	"github.com/mcpwire/mcpwire/runtime/embed",
	"github.com/mcpwire/mcpwire/runtime/embed/gosdk",
	"github.com/mcpwire/mcpwire/runtime/task",
	"github.com/mcpwire/mcpwire/runtime/task/receiver",
	"github.com/modelcontextprotocol/go-sdk/mcp",
	"wire github.com/mcpwire/mcpwire/mcp",
}

// embeddingDeclarations are what its snippets use and the programs of the page have.
const embeddingDeclarations = `
type film struct{ Frames int }
`

// TestEmbeddingPage builds and runs the programs of docs/howto/embedding.md and its commands, and
// compiles its snippets.
func TestEmbeddingPage(t *testing.T) {
	slowtest.Require(t, "runs all commands and programs of the page")
	blocks := pageBlocks(t, "docs/howto/embedding.md")
	runBlocks(t, blocks)
	if n := compileSnippets(t, t.TempDir(), blocks, embeddingDeclarations, "tasks *gosdk.Tasks, store task.Store", embeddingImports); n < 4 {
		t.Errorf("only %d snippets were found", n)
	}
}

// The handler of the section "Steps" works in the first program of the page, with the command that
// the page prescribes.
func TestEmbeddingSteps(t *testing.T) {
	var program, commands, handler string
	for _, b := range pageBlocks(t, "docs/howto/embedding.md") {
		switch lang, text := b[1], b[2]; {
		case lang == "go" && program == "":
			program = text
		case lang == "sh" && commands == "":
			commands = text
		case lang == "go" && strings.Contains(text, "func trial("):
			handler = text
		}
	}
	change := func(text, old, new string) string {
		t.Helper()
		if strings.Count(text, old) != 1 {
			t.Fatalf("the page does not have %q once in\n%s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	}
	const durable = `"render": embed.Durable()`
	program = change(program, durable, durable+`, "trial": embed.Durable()`)
	program = change(program, "\n\t// Tasks:\n", "\tmcp.AddTool(s, &mcp.Tool{Name: \"trial\"}, trial)\n\n\t// Tasks:\n")
	program = change(program, `"context"`, "\"context\"\n\t\"encoding/json\"")
	program += change(handler, "AddDate(0, 0, 14)", "Add(time.Millisecond)")
	commands = change(commands, "render frames=2", "trial item=lamp <go.mod") // with input, the client can serve input requests; the form needs no line
	dir := t.TempDir()
	write(t, dir, "main.go", program)
	begin, rest, _ := strings.Cut(commands, "\n")
	_, use := repository(t)
	if got := shell(t, dir, begin+"\n"+use+rest); got != "parcel 12: accept\n" {
		t.Errorf("the tool returned %q", got)
	}
}

// Sections of docs/howto/embedding.md come from data and files. Limits name headings of
// docs/reference/upstream.md.
func TestEmbeddingPageIsComplete(t *testing.T) {
	const page = "docs/howto/embedding.md"
	patch, err := os.ReadFile("runtime/embed/gosdk/testdata/everything.patch")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := section(t, string(text), "patch", "```diff\n"+string(patch)+"```\n")
	want = section(t, want, "limits", limits(t))
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun go test -run EmbeddingPageIsComplete -update .", page, diff)
	}
}

// The page and the limits name the versions of the SDKs that the modules require.
func TestEmbeddingPageNamesVersions(t *testing.T) {
	page, err := os.ReadFile("docs/howto/embedding.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ module, path, name string }{
		{"gosdk", "github.com/modelcontextprotocol/go-sdk", "go-sdk"}, {"mcpgo", "github.com/mark3labs/mcp-go", "mcp-go"},
	} {
		text, err := os.ReadFile("runtime/embed/" + row.module + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		required := regexp.MustCompile(regexp.QuoteMeta(row.path) + ` (v\S+)`).FindStringSubmatch(string(text))
		if required == nil {
			t.Fatalf("module %s does not require %s", row.module, row.path)
		}
		named := regexp.MustCompile(row.name+` (v[\d.]*\d)`).FindAllStringSubmatch(string(page), -1)
		if len(named) < 2 {
			t.Errorf("the page names %d versions of %s", len(named), row.name)
		}
		for _, version := range named {
			if version[1] != required[1] {
				t.Errorf("the page has %s, and module %s requires %s", version[0], row.module, required[1])
			}
		}
	}
}

// section returns a page with other text between two comments.
func section(t *testing.T, page, name, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- end of "+name+" -->\n")
	if !ok || !ok2 {
		t.Fatalf("the page has no section %q", name)
	}
	return before + "<!-- " + name + " -->\n" + text + "<!-- end of " + name + " -->\n" + after
}

func limits(t *testing.T) string {
	upstream, err := os.ReadFile("docs/reference/upstream.md")
	if err != nil {
		t.Fatal(err)
	}
	anchors := make(map[string]string) // by the id of a section
	for line := range strings.Lines(string(upstream)) {
		if heading, ok := strings.CutPrefix(strings.TrimSpace(line), "### "); ok {
			id, _, _ := strings.Cut(heading, ":")
			anchors[id] = anchor(heading)
		}
	}
	var b strings.Builder
	b.WriteString("| | SDK | not possible | because | instead | lifted by |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, l := range sdklimits.All {
		lifted := "–"
		if l.Upstream != "" {
			if anchors[l.Upstream] == "" {
				t.Errorf("limit %s: docs/reference/upstream.md has no section %s", l.ID, l.Upstream)
			}
			lifted = fmt.Sprintf("[%s](../reference/upstream.md#%s)", l.Upstream, anchors[l.Upstream])
		}
		reason, instead := l.Reason, l.Instead
		if l.Source != "" {
			reason += " (" + l.Source + ")"
		}
		if instead == "" {
			instead = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", l.ID, l.SDK, l.Limit, reason, instead, lifted)
	}
	return b.String()
}

// anchor returns the anchor that GitHub gives a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		}
	}
	return b.String()
}
