package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// proof is a test function, or a case of a test suite, that names requirements.
type proof struct {
	Package string // its folder, relative to the root of the module
	Name    string // the name of the function, or that of the case in quotes
}

var (
	proves = regexp.MustCompile(`(?m)^Proves ((?:(?:[A-Z]+-)+\d+(?:,\s|\sand\s)?)+)\.`)
	id     = regexp.MustCompile(`(?:[A-Z]+-)+\d+`)
)

// proofs returns the tests of the module at root by the ids that they name, in the order of their
// files. It reads test files and the packages of test suites, whose names end in test.
func proofs(root string) (map[string][]proof, error) {
	found := map[string][]proof{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, base := filepath.Split(name)
		switch {
		case d.IsDir() && (base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") && name != root):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		case !strings.HasSuffix(base, "_test.go") && !strings.HasSuffix(filepath.Base(dir), "test"):
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Clean(dir))
		if err != nil {
			return err
		}
		return inFile(name, filepath.ToSlash(rel), found)
	})
	return found, err
}

// inFile adds the tests of one file to found.
func inFile(name, folder string, found map[string][]proof) error {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		for _, m := range proves.FindAllStringSubmatch(group.Text(), -1) {
			name := around(f, group)
			if name == "" {
				return fmt.Errorf("%s: proof outside a function and a case", fset.Position(group.Pos()))
			}
			p := proof{path.Clean(folder), name}
			for _, id := range id.FindAllString(m[1], -1) {
				if !slices.Contains(found[id], p) {
					found[id] = append(found[id], p)
				}
			}
		}
	}
	return nil
}

// around returns the name of the function that contains the comment or follows it, or that of the
// case that contains it: a composite literal with a field "name" in a table of the package. It
// returns "" if there is none.
func around(f *ast.File, group *ast.CommentGroup) (name string) {
	for _, d := range f.Decls {
		inside := d.Pos() <= group.Pos() && group.End() <= d.End()
		if fn, ok := d.(*ast.FuncDecl); ok && (inside || fn.Doc == group) {
			return fn.Name.Name
		}
		if !inside {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if n == nil || n.Pos() > group.Pos() || group.End() > n.End() {
				return false
			}
			if literal, ok := n.(*ast.CompositeLit); ok && name == "" {
				name = caseName(literal)
			}
			return true
		})
	}
	return name
}

// caseName returns the field "name" of a composite literal in quotes, or "".
func caseName(literal *ast.CompositeLit) string {
	for _, e := range literal.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, ok := field.Key.(*ast.Ident)
		value, isText := field.Value.(*ast.BasicLit)
		if ok && isText && key.Name == "name" && value.Kind == token.STRING {
			if text, err := strconv.Unquote(value.Value); err == nil {
				return strconv.Quote(text)
			}
		}
	}
	return ""
}
