package mcpwire_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/internal/slowtest"
)

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestReadme runs every command and every program in README.md.
func TestReadme(t *testing.T) {
	slowtest.Require(t, "runs all commands and programs of the page")
	blocks := pageBlocks(t, "README.md")
	runBlocks(t, blocks)
	if len(blocks) < 8 {
		t.Errorf("only %d blocks were found", len(blocks))
	}
}

// pageBlocks returns the code blocks of a page: each the whole block, its language and its text.
func pageBlocks(t *testing.T, page string) [][]string {
	t.Helper()
	src, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return block.FindAllStringSubmatch(string(src), -1)
}

// repository returns the root of the repository, and the commands that let a module use it instead of
// published versions. They add the known checksums, so that modules in the cache need no network.
func repository(t *testing.T) (root, use string) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	sums, edit := "cat", "go mod edit"
	for _, module := range []string{"", "/runtime/auth/jwtauth", "/runtime/embed/gosdk", "/runtime/embed/mcpgo", "/runtime/otel"} {
		edit += " -replace github.com/mcpwire/mcpwire" + module + "=" + root + module
		sums += " " + root + module + "/go.sum"
	}
	return root, sums + " >> go.sum\n" + edit + "\n"
}

// latest runs the newest release of the command line. The tests run that of the repository instead.
const latest = "go run github.com/mcpwire/mcpwire/tools/mcpwire@latest"

// runBlocks runs the commands and the programs of a page, commands that begin a module in a folder
// with the program before them, and those that begin a project in an empty folder. A block of text after a program, or after such commands, is what they
// must print. Go code without a package clause is left to other tests.
func runBlocks(t *testing.T, blocks [][]string) {
	ownHome(t)
	root, use := repository(t)
	program := ""
	for i, b := range blocks {
		lang, text := b[1], b[2]
		t.Run(fmt.Sprintf("%d %s", i+1, lang), func(t *testing.T) {
			switch lang {
			case "sh":
				if strings.TrimSpace(text) == "go test ./..." {
					return // this very run
				}
				if begin, rest, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(begin, "go mod init") {
					dir := t.TempDir()
					write(t, dir, "main.go", program)
					prints(t, shell(t, dir, begin+"\n"+use+rest), blocks[i+1:])
					return
				}
				if rest, ok := strings.CutPrefix(text, latest); ok {
					dir := t.TempDir()
					command := filepath.Join(dir, "mcpwire")
					shell(t, root, "go build -o "+command+" ./tools/mcpwire")
					prints(t, shell(t, dir, command+strings.Replace(rest, "\ngo mod tidy\n", "\n"+use+"go mod tidy\n", 1)), blocks[i+1:])
					return
				}
				shell(t, root, strings.ReplaceAll(text, "/tmp/", t.TempDir()+"/"))
			case "go":
				if !strings.HasPrefix(text, "package main") {
					return
				}
				program = text
				dir := t.TempDir()
				write(t, dir, "main.go", text)
				prints(t, shell(t, dir, "go mod init readme\n"+use+"go mod tidy\ngo run . < /dev/null"), blocks[i+1:])
			case "text":
			case "diff": // another test compares it
			case "console": // needs programs that are not here
			default:
				t.Errorf("no test runs blocks of %s", lang)
			}
		})
	}
}

// prints compares output with the first block of next, if that is text.
func prints(t *testing.T, output string, next [][]string) {
	t.Helper()
	if len(next) > 0 && next[0][1] == "text" && output != next[0][2] {
		t.Errorf("the output is\n%s\nand the page says\n%s", output, next[0][2])
	}
}

// ownHome gives the test a home directory, and moves the settings of Go into a file there: the servers
// that commands start get HOME, and not the variables that may hold the settings. That directory also
// keeps what commands store out of the user's.
func ownHome(t *testing.T) {
	t.Helper()
	names := []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOAUTH", "GOTOOLCHAIN", "GOFLAGS"}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var settings strings.Builder
	for i, value := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		settings.WriteString(names[i] + "=" + value + "\n")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	config, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(config, "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(config, "go"), "env", settings.String())
}

func shell(t *testing.T, dir, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-o", "pipefail", "-c", command)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", command, err, out, &errs)
	}
	return string(out)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
