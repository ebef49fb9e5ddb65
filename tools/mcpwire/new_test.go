package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/format"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/internal/slowtest"
)

// newProjects are the flags of all projects, by name.
var newProjects = map[string][]string{
	"plain":        nil,
	"durable":      {"-durable"},
	"web":          {"-http"},
	"web-durable":  {"-http", "-durable"},
	"example/user": {"-client"},
}

// All projects are formatted and complete. With MCPWIRE_SLOW=1, the test follows the commands that mcpwire
// new prints: the projects comply with go vet, their tests pass, and their programs do what they say.
func TestNewProjects(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	next := make(map[string][]string) // the commands to follow
	for module, flags := range newProjects {
		next[filepath.Base(module)] = writeProject(t, dir, module, flags...)
	}
	slowtest.Require(t, "also builds and runs all projects")
	for name, commands := range next {
		shell(t, filepath.Join(dir, name), "go mod edit -replace github.com/mcpwire/mcpwire="+root)
		shell(t, filepath.Join(dir, name), "go mod tidy && go vet ./...")
		for _, c := range commands[:2] {
			shell(t, filepath.Join(dir, name), c)
		}
	}

	for _, test := range []struct{ name, want string }{
		{"plain", "Hello, World!\n"},
		{"durable", "72 frames\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Chdir(filepath.Join(dir, test.name))
			if got := callTool(t, next[test.name][2]); got != test.want {
				t.Errorf("the call returns %q", got)
			}
			text, err := os.ReadFile("mcp.json")
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir) // hosts run servers in any folder
			if code, out, errs := mcpwire(t, "tools", hostedServer(t, text, test.name)); code != exitOK || out == "" {
				t.Errorf("the server of mcp.json: exit %d, output %q, errors:\n%s", code, out, errs)
			}
			if _, err := os.Stat("tasks.db"); err == nil {
				t.Error("the server of mcp.json keeps its tasks in the current folder")
			}
		})
	}
	for _, test := range []struct{ name, want string }{
		{"web", "Hello, World!\n"},
		{"web-durable", "72 frames\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := startProgram(t, filepath.Join(dir, test.name), test.name)
			if got := callTool(t, strings.Replace(next[test.name][3], "http://localhost:8080/mcp", url, 1)); got != test.want {
				t.Errorf("the call returns %q", got)
			}
		})
	}
	t.Run("client", func(t *testing.T) {
		program, server := filepath.Join(dir, "user", "user"), filepath.Join(dir, "plain", "plain")
		use := func(args ...string) string {
			t.Helper()
			out, err := exec.CommandContext(t.Context(), program, args...).Output()
			if err != nil {
				t.Fatalf("%v: %v", args, err)
			}
			return string(out)
		}
		if got := use(server); got != "greet\n" {
			t.Errorf("the tools are %q", got)
		}
		if got := use("-call", "greet", "-arguments", `{"name":"Ada"}`, server); got != "Hello, Ada!\n" {
			t.Errorf("over standard input and output, the call returns %q", got)
		}
		if got := use("-call", "greet", "-arguments", `{"name":"Bob"}`, startProgram(t, filepath.Join(dir, "web"), "web")); got != "Hello, Bob!\n" {
			t.Errorf("over HTTP, the call returns %q", got)
		}
	})
	t.Run("image", func(t *testing.T) {
		for name := range next {
			checkImage(t, filepath.Join(dir, name), name == "web-durable")
		}
	})
}

// writeProject writes a project into dir, checks its files, and returns the commands to follow after
// the dependencies of its module are complete.
func writeProject(t *testing.T, dir, module string, flags ...string) []string {
	t.Helper()
	t.Chdir(dir)
	code, out, errs := mcpwire(t, slices.Concat([]string{"new"}, flags, []string{module})...)
	if code != exitOK || errs != "" {
		t.Fatalf("exit %d, errors:\n%s", code, errs)
	}
	name := filepath.Base(module)
	announced, commands, _ := strings.Cut(out, "\nTo try it:\n\n")
	var wrote strings.Builder
	err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		fmt.Fprintf(&wrote, "wrote %s\n", filepath.ToSlash(path))
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".go") {
			if formatted, err := format.Source(text); err != nil || string(formatted) != string(text) {
				t.Errorf("%s is not formatted (%v):\n%s", path, err, text)
			}
		}
		if strings.Contains(string(text), "no value") || strings.Contains(string(text), "{{") && !strings.HasSuffix(path, ".yml") {
			t.Errorf("%s is\n%s", path, text)
		}
		return nil
	})
	if err != nil || announced != wrote.String() {
		t.Errorf("there are other files than announced (%v):\n%s\nand announced:\n%s", err, &wrote, announced)
	}
	lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll("\n"+commands, "\n  ", "\n"), "\n"), "\n")[1:]
	if len(lines) < 5 || lines[0] != "cd "+name || lines[1] != "go get github.com/mcpwire/mcpwire@latest && go mod tidy" {
		t.Fatalf("the commands are %q", lines)
	}
	readme, err := os.ReadFile(filepath.Join(name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "```sh\n" + strings.Join(lines[2:], "\n") + "\n```\n"; !strings.Contains(string(readme), want) {
		t.Errorf("%s has other commands than\n%s\n%s", name, want, readme)
	}
	return lines[2:]
}

// callTool runs a command line that begins with go tool mcpwire in this process, and returns its output.
func callTool(t *testing.T, line string) string {
	t.Helper()
	args, ok := strings.CutPrefix(line, "go tool mcpwire ")
	if !ok {
		t.Fatalf("the command %q is not a call", line)
	}
	code, out, errs := mcpwire(t, strings.Fields(args)...)
	if code != exitOK {
		t.Fatalf("%s: exit %d, errors:\n%s", line, code, errs)
	}
	return out
}

// hostedServer returns the command of the only server in a file for hosts.
func hostedServer(t *testing.T, text []byte, name string) string {
	t.Helper()
	var hosted struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &hosted); err != nil {
		t.Fatal(err)
	}
	if len(hosted.Servers) != 1 || hosted.Servers[name].Command == "" {
		t.Fatalf("mcp.json is\n%s", text)
	}
	s := hosted.Servers[name]
	return "'" + strings.Join(append([]string{s.Command}, s.Args...), "' '") + "'"
}

// startProgram starts the server of a folder over HTTP and returns its URL. At the end of the test, it
// ends the server by a signal.
func startProgram(t *testing.T, dir, name string) (url string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals")
	}
	cmd := exec.Command(filepath.Join(dir, name), "-listen", "localhost:0")
	cmd.Dir = dir
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		rest, _ := io.ReadAll(stderr)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, rest)
		}
	})
	reader := bufio.NewReader(stderr)
	line, err := reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, ok := strings.Cut(strings.TrimSpace(line), "url=")
	if !ok {
		t.Fatalf("%s logs %q", name, line)
	}
	return url
}

// checkImage checks that the files exist that a Dockerfile copies from the project. If run is true, it
// also runs the commands of the Dockerfile in the folder of the project, and checks what they leave for
// the image.
func checkImage(t *testing.T, dir string, run bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module); version == nil || !strings.HasPrefix(string(text), "FROM golang:"+string(version[1])+" AS build\n") {
		t.Errorf("the image is not built with the Go version of the module:\n%s\n%s", text, module)
	}
	out := t.TempDir()
	for line := range strings.Lines(string(text)) {
		command, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch args := strings.Fields(rest); {
		case command == "RUN" && run:
			shell(t, dir, strings.ReplaceAll(rest, "/out", out))
		case command == "COPY" && args[0] == "--from=build":
			source := args[len(args)-2]
			if inside, ok := strings.CutPrefix(source, "/out"); ok && run {
				if _, err := os.Stat(out + inside); err != nil {
					t.Errorf("%s: %v", strings.TrimSpace(line), err)
				}
			}
		case command == "COPY":
			for _, source := range args[:len(args)-1] {
				if _, err := os.Stat(filepath.Join(dir, source)); err != nil {
					t.Errorf("%s: %v", strings.TrimSpace(line), err)
				}
			}
		}
	}
	if !run {
		return
	}
	help, err := exec.CommandContext(t.Context(), filepath.Join(out, "program"), "-h").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "-listen ADDRESS") {
		t.Errorf("the program of the image: %v\n%s", err, help)
	}
}

// shell runs a command line.
func shell(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-e", "-c", line)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s: %v\n%s", filepath.Base(dir), line, err, text)
	}
}

// mcpwire new writes into an empty folder, and changes nothing in another one.
func TestNewProjectKeepsFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("empty", 0o777); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := mcpwire(t, "new", "empty"); code != exitOK {
		t.Errorf("in an empty folder: exit %d, errors:\n%s", code, errs)
	}
	if err := os.Mkdir("used", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("used/notes", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("file", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used", "file"} {
		code, out, errs := mcpwire(t, "new", name)
		if code != exitFault || out != "" || !strings.Contains(errs, filepath.Join(dir, name)) {
			t.Errorf("%s: exit %d, output %q, errors:\n%s", name, code, out, errs)
		}
	}
	if list, err := os.ReadDir("used"); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func TestNewProjectRejects(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]int{
		"":                   exitUsage,
		"a b":                exitUsage,
		"-client -http a":    exitUsage,
		"-client -durable a": exitUsage,
		"..":                 exitFault,
		"../a":               exitFault,
		"/a":                 exitFault,
		"a/":                 exitFault,
		"a//b":               exitFault,
		`a\b`:                exitFault,
		"a/.git":             exitFault,
		"a.":                 exitFault,
		"ä":                  exitFault,
		"-client -- -a":      exitFault,
		"time":               exitFault, // a standard package
		"-client net/http":   exitFault,
	} {
		code, out, errs := mcpwire(t, append([]string{"new"}, strings.Fields(line)...)...)
		if code != want || out != "" || errs == "" {
			t.Errorf("%q: exit %d, output %q, errors:\n%s", line, code, out, errs)
		}
	}
	if list, err := os.ReadDir("."); err != nil || len(list) != 0 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

// A project requires the version of the command, unless only this machine may have it.
func TestNewProjectRequiresVersion(t *testing.T) {
	for _, test := range []struct {
		version, sum, want string
	}{
		{"v1.2.3", "", "v1.2.3"}, // of a checkout of the tag
		{"v1.2.3", "h1:x", "v1.2.3"},
		{"v1.2.4-0.20300102030405-0123456789ab", "h1:x", "v1.2.4-0.20300102030405-0123456789ab"},
		{"v1.2.4-0.20300102030405-0123456789ab", "", ""},
		{"v1.2.3+dirty", "", ""},
		{"v0.0.0-00010101000000-000000000000", "", ""}, // replaced by a folder
		{"(devel)", "", ""},
		{"", "", ""},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: test.version, Sum: test.sum}}
		if got := required(info, true); got != test.want {
			t.Errorf("version %q with sum %q: %q", test.version, test.sum, got)
		}
	}
	if got := required(nil, false); got != "" {
		t.Errorf("without build information: %q", got)
	}
}
