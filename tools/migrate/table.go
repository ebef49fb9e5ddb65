package main

import (
	_ "embed"
	"fmt"
	"go/token"
	"go/types"
	"strings"
)

// table lists the changes. A line is one of
//
//	field PACKAGE.TYPE.FIELD GROUP.FIELD [PACKAGE.TYPE]
//	name PACKAGE.NAME PACKAGE.NAME
//	single PACKAGE.NAME
//
// A field has moved into another struct, the field GROUP of its struct. The type of that is named
// like the field, and in the same package, unless the line ends with another one. A name of a
// package, a method or a field (PACKAGE.TYPE.NAME) has another name, or is in another package. A
// function that returned a value and an error now returns only the value, which has a method Err.
// Packages are named by their path in this module.
//
//go:embed table.txt
var table string

// module is the path of the module whose names change.
const module = "github.com/mcpwire/mcpwire/"

// target is what a name becomes.
type target struct {
	group, typ string // the field that has the moved field, and its type; or ""
	pkg        string // the path of the package of typ, or of a name that has moved; or ""
	name       string
	single     bool // the name stays, and the function returns one value
}

// path returns what replaces an identifier.
func (t target) path() string {
	if t.group != "" {
		return t.group + "." + t.name
	}
	return t.name
}

// rules are the lines of a table.
type rules struct {
	targets  map[string]target // by package path, a dot, and the name
	resolved map[string]target // by the place of the declaration
	loaded   map[*types.Package]bool
}

// parse reads a table.
func parse(table string) (*rules, error) {
	r := &rules{targets: map[string]target{}, resolved: map[string]target{}, loaded: map[*types.Package]bool{}}
	for n, line := range strings.Split(table, "\n") {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		bad := fmt.Errorf("table: line %d: %q", n+1, line)
		switch {
		case f[0] == "field" && (len(f) == 3 || len(f) == 4):
			group, name, ok := strings.Cut(f[2], ".")
			pkg, _, _ := split(f[1])
			typ := group
			if len(f) == 4 {
				pkg, typ, _ = split(f[3])
			}
			if !ok || pkg == "" {
				return nil, bad
			}
			r.targets[module+f[1]] = target{group: group, typ: typ, pkg: module + pkg, name: name}
		case f[0] == "name" && len(f) == 3:
			from, _, _ := split(f[1])
			pkg, name, _ := split(f[2])
			t := target{name: name[strings.LastIndex(name, ".")+1:]}
			if pkg != from {
				t.pkg = module + pkg
			}
			r.targets[module+f[1]] = t
		case f[0] == "single" && len(f) == 2:
			r.targets[module+f[1]] = target{single: true}
		default:
			return nil, bad
		}
	}
	return r, nil
}

// split splits PACKAGE.NAME.
func split(s string) (pkg, name string, ok bool) {
	slash := strings.LastIndex(s, "/") + 1
	pkg, name, ok = strings.Cut(s[slash:], ".")
	return s[:slash] + pkg, name, ok
}

// resolve finds the declarations of all names in a package and in those that it imports. A package
// is loaded once from its source and again as an import, so a declaration is known by its place.
func (r *rules) resolve(p *types.Package, files *token.FileSet) {
	if r.loaded[p] {
		return
	}
	r.loaded[p] = true
	for _, imported := range p.Imports() {
		r.resolve(imported, files)
	}
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		r.add(o, name, files)
		named, ok := o.Type().(*types.Named)
		if _, isType := o.(*types.TypeName); !ok || !isType {
			continue
		}
		for m := range named.Methods() {
			r.add(m, name+"."+m.Name(), files)
		}
		if s, ok := named.Underlying().(*types.Struct); ok {
			for f := range s.Fields() {
				r.add(f, name+"."+f.Name(), files)
			}
		}
	}
}

func (r *rules) add(o types.Object, name string, files *token.FileSet) {
	if t, ok := r.targets[o.Pkg().Path()+"."+name]; ok {
		r.resolved[place(o, files)] = t
	}
}

func place(o types.Object, files *token.FileSet) string {
	return files.Position(o.Pos()).String() + " " + o.Name()
}

// uses returns what a used name becomes.
func (r *rules) uses(o types.Object, files *token.FileSet) (target, bool) {
	if o == nil || o.Pkg() == nil {
		return target{}, false
	}
	t, ok := r.resolved[place(o, files)]
	return t, ok && !t.single
}

// single reports whether a function now returns one value.
func (r *rules) single(o types.Object, files *token.FileSet) bool {
	if o == nil || o.Pkg() == nil {
		return false
	}
	return r.resolved[place(o, files)].single
}
