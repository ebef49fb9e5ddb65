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
	"strings"
)

// proof is a test function that names requirements.
type proof struct {
	Package string // its folder, relative to the root of the module
	Name    string // the name of the function
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
			fn := around(f, group)
			if fn == nil {
				return fmt.Errorf("%s: proof outside a function", fset.Position(group.Pos()))
			}
			p := proof{path.Clean(folder), fn.Name.Name}
			for _, id := range id.FindAllString(m[1], -1) {
				if !slices.Contains(found[id], p) {
					found[id] = append(found[id], p)
				}
			}
		}
	}
	return nil
}

// around returns the function that contains the comment or follows it.
func around(f *ast.File, group *ast.CommentGroup) *ast.FuncDecl {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && (fn.Doc == group || fn.Pos() <= group.Pos() && group.End() <= fn.End()) {
			return fn
		}
	}
	return nil
}
