package mcpwire_test

import (
	"go/ast"
	"go/parser"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// The programs of the README and of the tutorial check every error, as errcheck demands: a reader
// copies them.
func TestProgramsOfPagesCheckErrors(t *testing.T) {
	c := newChecker(t)
	c.list(t, ".")
	pages, err := filepath.Glob("docs/tutorial/*.md")
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, page := range append(pages, "README.md") {
		for _, b := range pageBlocks(t, page) {
			if b[1] != "go" || !strings.HasPrefix(b[2], "package main") {
				continue
			}
			programs++
			for _, call := range ignoredErrors(t, c, b[2]) {
				t.Errorf("%s: a program does not check the error of %s", page, call)
			}
		}
	}
	if programs < 5 {
		t.Errorf("only %d programs were found", programs)
	}
	if found := ignoredErrors(t, c, "package main\n\nimport \"os\"\n\nfunc main() {\n\tdefer os.Remove(\"a\")\n\tos.Getpid()\n}\n"); len(found) != 1 {
		t.Errorf("in a program that ignores an error, the test finds %v", found)
	}
}

// ignoredErrors returns the calls of a program that are statements and return an error, except those
// of package fmt.
func ignoredErrors(t *testing.T, c *checker, program string) (calls []string) {
	t.Helper()
	f, err := parser.ParseFile(c.fset, "main.go", program, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	if _, err := (&types.Config{Importer: c}).Check("main", c.fset, []*ast.File{f}, &info); err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		var call ast.Expr
		switch n := n.(type) {
		case *ast.ExprStmt:
			call = n.X
		case *ast.DeferStmt:
			call = n.Call
		case *ast.GoStmt:
			call = n.Call
		}
		x, ok := call.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := x.Fun.(*ast.SelectorExpr); ok && info.Uses[sel.Sel].Pkg().Path() == "fmt" {
			return true
		}
		results := []types.Type{info.TypeOf(x)}
		if tuple, ok := results[0].(*types.Tuple); ok {
			results = results[:0]
			for v := range tuple.Variables() {
				results = append(results, v.Type())
			}
		}
		for _, result := range results {
			if result != nil && types.Identical(result, types.Universe.Lookup("error").Type()) {
				calls = append(calls, types.ExprString(x.Fun))
			}
		}
		return true
	})
	return calls
}
