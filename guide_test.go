package mcpwire_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guideImports are the packages that snippets of the guide may use.
var guideImports = []string{
	"context", "crypto/rand", "encoding/base64", "errors", "fmt", "log/slog", "net/http", "os", "os/signal",
	"path/filepath", "strconv", "strings", "syscall", "testing", "time",
	"github.com/mcpwire/mcpwire/codec/jsonrpc",
	"github.com/mcpwire/mcpwire/mcp",
	"github.com/mcpwire/mcpwire/runtime/client",
	"github.com/mcpwire/mcpwire/runtime/form",
	"github.com/mcpwire/mcpwire/runtime/server",
	"github.com/mcpwire/mcpwire/runtime/server/servertest",
	"github.com/mcpwire/mcpwire/runtime/session",
	"github.com/mcpwire/mcpwire/runtime/task/bolt",
	"github.com/mcpwire/mcpwire/runtime/task/memory",
	"github.com/mcpwire/mcpwire/runtime/task/requestor",
	"github.com/mcpwire/mcpwire/runtime/transport",
	"github.com/mcpwire/mcpwire/runtime/transport/stdio",
	"github.com/mcpwire/mcpwire/runtime/transport/streamable",
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore",
}

// guideDeclaration matches a declaration at the left margin of a snippet.
var guideDeclaration = regexp.MustCompile(`(?m)^(?:func|type) (?:[^\n]*\{\n(?s:.*?)^\}$|[^\n]*$)`)

// TestGuide compiles every Go block of docs/guide.md and runs the tests in them. A block that
// begins with a package clause is a program and is run, too, with empty standard input. All other
// blocks make one file: their declarations stand at its top level, so that later blocks can use
// them, and their statements in a function for each block.
func TestGuide(t *testing.T) {
	src, err := os.ReadFile("docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var declarations, functions strings.Builder
	programs, snippets := 0, 0
	for i, b := range block.FindAllStringSubmatch(string(src), -1) {
		lang, text := b[1], b[2]
		switch {
		case lang != "go":
			t.Errorf("no test runs blocks of %s", lang)
		case strings.HasPrefix(text, "package main"):
			programs++
			program := filepath.Join(dir, fmt.Sprintf("program%d", programs))
			if err := os.Mkdir(program, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, program, "main.go", text)
		default:
			snippets++
			for _, d := range guideDeclaration.FindAllString(text, -1) {
				declarations.WriteString(d + "\n\n")
			}
			if body := strings.TrimSpace(guideDeclaration.ReplaceAllString(text, "")); body != "" {
				fmt.Fprintf(&functions, "func block%d(ctx context.Context, s *server.Server, c *client.Client) error {\n{\n%s\n}\nreturn nil\n}\n\n", i+1, body)
			}
		}
	}
	if programs < 1 || snippets < 15 {
		t.Errorf("only %d programs and %d snippets were found", programs, snippets)
	}

	code := declarations.String() + functions.String()
	file := "package guide\n\nimport (\n"
	for _, p := range slices.Sorted(slices.Values(guideImports)) {
		if regexp.MustCompile(`\b` + path.Base(p) + `\.[A-Z]`).MatchString(code) {
			file += fmt.Sprintf("\t%q\n", p)
		}
	}
	write(t, dir, "guide_test.go", file+")\n\n"+code)
	commands := "go mod init guide\ngo mod edit -replace github.com/mcpwire/mcpwire=" + root + "\ngo mod tidy\ngo test ./...\n"
	for i := range programs {
		commands += fmt.Sprintf("go run ./program%d < /dev/null\n", i+1)
	}
	shell(t, dir, commands)
}
