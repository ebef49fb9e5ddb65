package mcpwire_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Types and authorization need no other module. Servers, clients and what embeddings share need few,
// and neither of the other SDKs.
func TestPackagesNeedFewModules(t *testing.T) {
	const own = "github.com/mcpwire/mcpwire"
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, test := range []struct {
			packages, modules []string
		}{
			{[]string{"./mcp"}, []string{own}},
			{[]string{
				"./runtime/auth", "./runtime/auth/filestore", "./runtime/auth/introspect", "./runtime/auth/loopback",
				"./runtime/auth/machine", "./runtime/auth/oauth", "./runtime/auth/trial",
			}, []string{own}},
			{[]string{"./runtime/server", "./runtime/client", "./runtime/embed"}, []string{
				"github.com/goccy/go-json",
				own,
				"github.com/yosida95/uritemplate/v3",
				"golang.org/x/time",
			}},
		} {
			cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}, test.packages...)...)
			cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", cmd, err)
			}
			got := strings.Fields(string(out))
			slices.Sort(got)
			if diff := cmp.Diff(test.modules, slices.Compact(got)); diff != "" {
				t.Errorf("modules of %v on %s (-want +got):\n%s", test.packages, system, diff)
			}
		}
	}
}

// All modules of this repository that use another SDK use the same version of it.
func TestModulesUseSameSDKs(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod").Output()
	if err != nil {
		t.Skip("without git:", err)
	}
	files := strings.Fields(string(out))
	for _, sdk := range []string{"github.com/modelcontextprotocol/go-sdk", "github.com/mark3labs/mcp-go"} {
		users := make(map[string][]string) // by version
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if m := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(sdk) + ` (v\S+)`).FindSubmatch(src); m != nil {
				users[string(m[1])] = append(users[string(m[1])], file)
			}
		}
		if len(users) != 1 {
			t.Errorf("versions of %s: %v", sdk, users)
		}
	}
}
