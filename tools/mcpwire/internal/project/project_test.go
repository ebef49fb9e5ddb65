package project

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The module of a project needs the Go version of this module, and requires the given version of it.
func TestModule(t *testing.T) {
	own, err := os.ReadFile("../../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	goVersion := regexp.MustCompile(`(?m)^go .*$`).FindString(string(own))
	for version, require := range map[string]string{"": "", "v1.2.3": "require github.com/mcpwire/mcpwire v1.2.3\n\n"} {
		dir := t.TempDir()
		p := Project{Module: "example.com/ada/shop/v2", Version: version}
		if _, err := p.Write(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, "shop", "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		want := "module example.com/ada/shop/v2\n\n" + goVersion + "\n\n" + require + "tool github.com/mcpwire/mcpwire/tools/mcpwire\n"
		if string(text) != want {
			t.Errorf("version %q: go.mod is\n%swant\n%s", version, text, want)
		}
		if complete := p.Complete(); strings.Contains(complete, "latest") == (version != "") {
			t.Errorf("version %q: %s", version, complete)
		}
	}
}

func TestName(t *testing.T) {
	for module, want := range map[string]string{
		"shop":                "shop",
		"v2":                  "v2",
		"example.com/shop":    "shop",
		"example.com/shop/v2": "shop",
		"example.com/Shop/v1": "v1",
		"example.com/v20":     "example.com",
	} {
		p := Project{Module: module}
		if got := p.Name(); got != want {
			t.Errorf("the name of %s is %q", module, got)
		}
	}
}
