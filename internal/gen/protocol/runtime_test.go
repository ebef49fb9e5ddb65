package protocol_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
)

// revisionsNamed are the files of the runtime that name revisions, with the reason why the
// generator cannot derive that code.
var revisionsNamed = map[string]string{
	"server/sample.go":                    "only prose says that clients before 2025-11-25 need not declare sampling.context",
	"server/tasks.go":                     "only prose says since which revision the Tasks extension is defined",
	"transport/streamable/server_conn.go": "only prose says that clients before 2025-11-25 reject events without data",
	"transport/streamable/server_post.go": "only prose says which revision a request without the header MCP-Protocol-Version has",
}

// The runtime has no protocol knowledge of its own: it names methods by the generated constants,
// and no revisions except in revisionsNamed.
func TestRuntimeRepeatsNoProtocolKnowledge(t *testing.T) {
	const root = "../../../runtime"
	named := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasSuffix(d.Name(), "test")) { // storetest, sessiontest, …
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		revision := func(at token.Pos) {
			if named[rel] = true; revisionsNamed[rel] == "" {
				t.Errorf("%s names a revision; let the generator decide, or add the file to revisionsNamed with the reason", fset.Position(at))
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "mcp" && strings.HasPrefix(n.Sel.Name, "Revision2") {
					revision(n.Pos())
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					break
				}
				if _, ok := mcp.LookupMethod(text); ok {
					t.Errorf("%s: the method %q has a constant in package mcp", fset.Position(n.Pos()), text)
				}
				if slices.Contains(mcp.Revisions(), mcp.Revision(text)) {
					revision(n.Pos())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for file := range revisionsNamed {
		if !named[file] {
			t.Errorf("%s names no revision; remove it from revisionsNamed", file)
		}
	}
}
