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
	"context", "crypto/rand", "encoding/base64", "encoding/json", "errors", "fmt", "log", "log/slog", "net/http", "os", "os/signal",
	"path/filepath", "strconv", "strings", "syscall", "testing", "time",
	"github.com/mcpwire/mcpwire/codec",
	"github.com/mcpwire/mcpwire/codec/jsonrpc",
	"github.com/mcpwire/mcpwire/codec/wire",
	"github.com/mcpwire/mcpwire/mcp",
	"mcp0618 github.com/mcpwire/mcpwire/mcp",
	"github.com/mcpwire/mcpwire/runtime/auth",
	"github.com/mcpwire/mcpwire/runtime/auth/filestore",
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth",
	"github.com/mcpwire/mcpwire/runtime/auth/loopback",
	"github.com/mcpwire/mcpwire/runtime/auth/machine",
	"github.com/mcpwire/mcpwire/runtime/auth/oauth",
	"github.com/mcpwire/mcpwire/runtime/auth/provider",
	"github.com/mcpwire/mcpwire/runtime/client",
	"github.com/mcpwire/mcpwire/runtime/form",
	"github.com/mcpwire/mcpwire/runtime/proxy",
	"github.com/mcpwire/mcpwire/runtime/server",
	"github.com/mcpwire/mcpwire/runtime/server/servertest",
	"github.com/mcpwire/mcpwire/runtime/server/skills",
	"github.com/mcpwire/mcpwire/runtime/session",
	"github.com/mcpwire/mcpwire/runtime/task/bolt",
	"github.com/mcpwire/mcpwire/runtime/task",
	"github.com/mcpwire/mcpwire/runtime/task/memory",
	"github.com/mcpwire/mcpwire/runtime/task/receiver",
	"github.com/mcpwire/mcpwire/runtime/task/requestor",
	"github.com/mcpwire/mcpwire/runtime/transport",
	"github.com/mcpwire/mcpwire/runtime/transport/stdio",
	"github.com/mcpwire/mcpwire/runtime/transport/streamable",
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/boltstore",
}

// guideDeclaration matches a declaration at the left margin of a snippet.
var guideDeclaration = regexp.MustCompile(`(?m)^(?:func|type) (?:[^\n]*\{\n(?s:.*?)^\}$|[^\n]*$)`)

// guidePages are the pages that TestGuide checks. They make one file, so that a page can use what
// another one declares.
var guidePages = []string{
	"docs/tutorial/1-hello.md", "docs/tutorial/2-question.md", "docs/tutorial/3-durable.md",
	"docs/tutorial/4-http.md", "docs/tutorial/6-production.md",
	"docs/howto/auth.md", "docs/howto/client.md", "docs/howto/durable.md", "docs/howto/input.md",
	"docs/howto/proxy.md", "docs/howto/server.md", "docs/howto/signals.md", "docs/howto/skills.md", "docs/howto/upgrade.md",
	"docs/reference/generated.md",
}

// TestGuide compiles every Go block of guidePages, and runs the tests in them. A block that begins
// with a package clause is a program and is run, too, with empty standard input; a block of text
// after it is what it must print. All other blocks make one file: their declarations stand at its
// top level, so that other blocks can use them, and their statements in a function for each block.
func TestGuide(t *testing.T) {
	var blocks [][]string
	for _, page := range guidePages {
		blocks = append(blocks, pageBlocks(t, page)...)
	}
	testBlocks(t, blocks)
}

// guideScope is what snippets of all pages may use.
const guideScope = "s *server.Server, c *client.Client"

// guideDeclarations are what the snippets use and the application has.
const guideDeclarations = `
var (
	key        []byte
	f          *client.FormRequest
	userOf     func(r *http.Request) (string, error)
	verifier   auth.Verifier
	store      oauth.Store
	lookUp     func(ctx context.Context, token string) (user string, expiry time.Time, ok bool)
	showToUser func(ctx context.Context, authorizationURL string) (string, error)
	userInfo   func(ctx context.Context, t *oauth.Token) (subject string, claims map[string]any, err error)
)

func remove(ctx context.Context, c *server.Call, in struct{}) (string, error) { return "", nil }
func pack(ctx context.Context, c *server.Call, in struct{}) (string, error)   { return "", nil }
`

// guideVariables matches the variables that a snippet declares at the left margin. The reader may be
// the one who uses them.
var guideVariables = regexp.MustCompile(`(?m)^(\w+(?:, \w+)*) := `)

func testBlocks(t *testing.T, blocks [][]string) {
	dir := t.TempDir()
	var programs [][][]string // each with the blocks that follow
	for i, b := range blocks {
		lang, text := b[1], b[2]
		switch {
		case lang == "text" && i > 0 && strings.HasPrefix(blocks[i-1][2], "package main"):
		case lang == "json": // the text of a file
		case lang != "go":
			t.Errorf("no test runs blocks of %s", lang)
		case strings.HasPrefix(text, "package main"):
			programs = append(programs, blocks[i+1:])
			program := filepath.Join(dir, fmt.Sprintf("program%d", len(programs)))
			if err := os.Mkdir(program, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, program, "main.go", text)
		}
	}
	snippets := compileSnippets(t, dir, blocks, guideDeclarations, guideScope, guideImports)
	if len(programs) < 3 || snippets < 35 {
		t.Errorf("only %d programs and %d snippets were found", len(programs), snippets)
	}
	for i, next := range programs {
		prints(t, shell(t, dir, fmt.Sprintf("go run ./program%d < /dev/null\n", i+1)), next)
	}
}

// compileSnippets makes a package in dir of the Go blocks that are not programs, and runs the tests in
// them. Snippets may use the declarations and, in statements, ctx and the parameters in scope. It
// returns the number of snippets.
func compileSnippets(t *testing.T, dir string, blocks [][]string, declared, scope string, imports []string) (snippets int) {
	t.Helper()
	var declarations, functions strings.Builder
	declarations.WriteString(declared)
	for i, b := range blocks {
		text := b[2]
		if b[1] != "go" || strings.HasPrefix(text, "package main") {
			continue
		}
		snippets++
		for _, d := range guideDeclaration.FindAllString(text, -1) {
			declarations.WriteString(d + "\n\n")
		}
		if body := strings.TrimSpace(guideDeclaration.ReplaceAllString(text, "")); body != "" {
			for _, names := range guideVariables.FindAllStringSubmatch(body, -1) {
				for name := range strings.SplitSeq(names[1], ", ") {
					if name != "_" {
						body += "\n_ = " + name
					}
				}
			}
			fmt.Fprintf(&functions, "func block%d(ctx context.Context, %s) error {\n{\n%s\n}\nreturn nil\n}\n\n", i+1, scope, body)
		}
	}
	code := declarations.String() + functions.String()
	file := "package guide\n\nimport (\n"
	for _, p := range slices.Sorted(slices.Values(imports)) {
		name, from, renamed := strings.Cut(p, " ") // or only a path
		if !renamed {
			name, from = path.Base(p), p
		}
		if regexp.MustCompile(`\b` + name + `\.[A-Z]`).MatchString(code) {
			file += fmt.Sprintf("\t%s %q\n", name, from)
		}
	}
	write(t, dir, "guide_test.go", file+")\n\n"+code)
	_, use := repository(t)
	shell(t, dir, "go mod init guide\n"+use+"go mod tidy\ngo test ./...\n")
	return snippets
}
