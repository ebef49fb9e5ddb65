package mcpwire_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Only .ci/setup installs something. The other scripts that .ci/check runs, and the tests, do not.
func TestOnlySetupInstalls(t *testing.T) {
	installs := regexp.MustCompile(`\b(apt|apt-get|dpkg|pip|brew)\b|\bnpm (ci|i|install|exec)\b|\bnpx\b|\bgo (install|get|mod download)\b|\bgo run \S+@|"(npm|npx|apt-get)", "`)
	for _, part := range []string{"apt-get", "npm ci", "mod download"} {
		if !strings.Contains(readText(t, ".ci/setup"), part) {
			t.Errorf(".ci/setup has no %s", part)
		}
	}
	scripts := []string{".ci/check", ".ci/fuzz", ".ci/keep", ".ci/run", ".ci/stress", ".ci/versions"}
	more, err := filepath.Glob("tools/*/run")
	if err != nil || len(more) == 0 {
		t.Fatal(more, err)
	}
	tests, err := exec.CommandContext(t.Context(), "git", "grep", "-lE", `"(npm|npx|apt-get)"`, "--", "*_test.go").Output()
	if err != nil {
		t.Skip("without git:", err)
	}
	for _, name := range slices.Concat(scripts, more, strings.Fields(string(tests))) {
		if name == "ci_test.go" {
			continue
		}
		for i, line := range strings.Split(readText(t, name), "\n") {
			if found := installs.FindString(line); found != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
				t.Errorf("%s:%d: %s: only .ci/setup installs something", name, i+1, found)
			}
		}
	}
}

// .ci/setup installs the packages of a lock file once, and again after it has changed.
func TestSetupInstallsOnce(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{".ci", "bin", "tools/x"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"setup", "versions"} {
		write(t, dir, ".ci/"+name, readText(t, ".ci/"+name))
	}
	write(t, dir, "tools/x/package-lock.json", "{}")
	write(t, dir, "bin/npm", "#!/bin/sh\necho \"$PWD $*\" >>"+filepath.Join(dir, "calls")+"\nmkdir -p node_modules\n")
	for _, name := range []string{".ci/setup", "bin/npm"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, dir, "git init --quiet")
	t.Setenv("PATH", filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	for i, test := range []struct {
		lock  string
		calls int
	}{{"{}", 1}, {"{}", 1}, {"[]", 2}, {"[]", 2}} {
		write(t, dir, "tools/x/package-lock.json", test.lock)
		shell(t, dir, ".ci/setup npm")
		if calls := strings.Count(readText(t, filepath.Join(dir, "calls")), "/tools/x ci --ignore-scripts"); calls != test.calls {
			t.Errorf("after run %d, npm was called %d times, want %d", i+1, calls, test.calls)
		}
	}
	write(t, dir, "bin/npm", "#!/bin/sh\nexit 1\n")
	write(t, dir, "tools/x/package-lock.json", "{}")
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci/setup"), "npm").CombinedOutput(); err == nil {
		t.Errorf("setup succeeds although npm fails:\n%s", out)
	}
}

// The newest candidate of the next version of Go is found in the list of the module proxy, and among the
// names of installed ones.
func TestCandidateOfNextGo(t *testing.T) {
	const platform = ".$(go env GOOS)-$(go env GOARCH)"
	for _, test := range []struct {
		have []string
		want string
	}{
		{[]string{"go1.26.9", "go1.27rc2", "go1.27.9"}, ""},
		{[]string{"go1.28rc1", "go1.28beta1", "go1.28rc10", "go1.28rc9", "go1.27.4"}, "go1.28rc10"},
		{[]string{"go1.28.0", "go1.28rc1"}, "go1.28.0"},
		{[]string{"go1.28.10", "go1.28.9"}, "go1.28.10"},
		{[]string{"go1.9.7"}, ""},
	} {
		lines := "echo golang.org/toolchain\necho v0.0.1-go1.99.0.plan9-mips\n"
		for i, version := range test.have {
			lines += []string{"echo v0.0.1-", "echo /a/golang.org/toolchain@v0.0.1-"}[i%2] + version + platform + "\n"
		}
		got := shell(t, ".", "source .ci/versions\nsupported=(go1.26.9 go1.27.9)\n{ "+lines+"}|candidate")
		if strings.TrimSpace(got) != test.want {
			t.Errorf("the candidate among %v is %q, want %q", test.have, got, test.want)
		}
	}
}

// The scripts, the workflows and the page on stability name the same versions of Go. All modules need the
// older one, and no module that they build needs a newer one.
func TestSupportedVersionsOfGo(t *testing.T) {
	supported := strings.Fields(shell(t, ".", `source .ci/versions; echo "${supported[@]}"`))
	if len(supported) != 2 {
		t.Fatalf("the supported versions are %v", supported)
	}
	var minors []string // such as 1.26
	for _, version := range supported {
		minors = append(minors, regexp.MustCompile(`1\.\d+`).FindString(version))
	}
	for name, want := range map[string]string{
		"docs/reference/stability.md": "today " + strings.Join(minors, " and "),
		".github/workflows/test.yml":  "go: ['" + strings.Join(minors, "', '") + "']",
	} {
		if !strings.Contains(readText(t, name), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Skip("without git:", err)
	}
	for _, file := range strings.Fields(string(out)) {
		var mod struct{ Go, Toolchain string }
		if err := json.Unmarshal([]byte(shell(t, filepath.Dir(file), "go mod edit -json")), &mod); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(struct{ Go, Toolchain string }{minors[0] + ".0", ""}, mod); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		// The go command demands that a module names the highest version of Go among its requirements, so this
		// fails first for a file that was edited by hand.
		for line := range strings.Lines(shell(t, filepath.Dir(file), "GOWORK=off go list -deps -test -f '{{with .Module}}{{.Path}} {{.GoVersion}}{{end}}' ./... | sort -u")) {
			var path string
			var needed, oldest int
			fmt.Sscanf(minors[0], "1.%d", &oldest)
			if _, err := fmt.Sscanf(line, "%s 1.%d", &path, &needed); err == nil && needed > oldest {
				t.Errorf("%s: %s needs Go 1.%d", file, path, needed)
			}
		}
	}
}
