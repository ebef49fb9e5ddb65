// Command migrate changes a program from the names of an earlier version of mcpwire to those of
// this one.
//
//	migrate [-C DIR] [-n] PACKAGE...
//
// It knows names by their types: it changes server.Config{PageSize: 9} and cfg.PageSize, and no
// field of another type that has the same name. Run it while the program still uses the earlier
// version and compiles, then upgrade the version. Files outside of the current build, such as those
// for another system, are not changed: run it again with GOOS set.
//
// It prints the names of the files that it has changed, and with file and line what it leaves to
// you. With -n, it changes nothing.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	dir := flag.String("C", ".", "folder of the module, `DIR`")
	dry := flag.Bool("n", false, "change no file")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: migrate [-C DIR] [-n] PACKAGE...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	files, err := migrate(*dir, table, flag.Args(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
	for _, f := range files {
		fmt.Println(f.name)
		if *dry {
			continue
		}
		if err := os.WriteFile(f.name, f.text, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "migrate:", err)
			os.Exit(1)
		}
	}
}

// file is a file with its new text.
type file struct {
	name string
	text []byte
}

// migrate loads the packages that the patterns name in a folder, and returns the files that a table
// changes. It writes to notes what must be changed by hand.
func migrate(dir, table string, patterns []string, notes io.Writer) ([]file, error) {
	rules, err := parse(table)
	if err != nil {
		return nil, err
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: dir, Tests: true,
		Mode: packages.LoadSyntax,
	}, patterns...)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, p := range loaded {
		for _, err := range p.Errors {
			faults = append(faults, err)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("the program must compile with the earlier version: %w", errors.Join(faults...))
	}
	var changed []file
	seen := make(map[string]bool) // a file is also in the test variant of its package
	for _, p := range loaded {
		rules.resolve(p.Types, p.Fset)
		for _, f := range p.Syntax {
			name := p.Fset.File(f.FileStart).Name()
			if seen[name] || !slices.Contains(p.GoFiles, name) {
				continue
			}
			seen[name] = true
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			r := &rewriter{rules: rules, pkg: p, file: f, tok: p.Fset.File(f.FileStart), text: text, notes: notes}
			after, err := r.rewrite()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if !bytes.Equal(text, after) {
				changed = append(changed, file{name, after})
			}
		}
	}
	return changed, nil
}

// edit replaces the bytes from one offset in a file to another.
type edit struct {
	from, to int
	text     string
}

// rewriter rewrites one file.
type rewriter struct {
	rules   *rules
	pkg     *packages.Package
	file    *ast.File
	tok     *token.File
	text    []byte
	notes   io.Writer
	edits   []edit // they do not overlap
	imports []string
}

// rewrite returns the new text of the file. Edits of inner expressions are made first, and become
// part of those of the expressions around them.
func (r *rewriter) rewrite() ([]byte, error) {
	var nodes []ast.Node
	keys := make(map[*ast.Ident]bool)  // in literals of structs, which literal changes
	handled := make(map[ast.Expr]bool) // calls in statements that result changes
	packs := make(map[*ast.Ident]bool) // names of packages that moved changes
	inInit := make(map[ast.Stmt]bool)  // statements before a condition
	ast.Inspect(r.file, func(n ast.Node) bool {
		if n != nil {
			nodes = append(nodes, n)
		}
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				keys[key] = true
			}
		case *ast.IfStmt:
			inInit[n.Init] = true
		case *ast.SwitchStmt:
			inInit[n.Init] = true
		case *ast.ExprStmt:
			handled[n.X] = true // no result is used
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if _, ok := r.pkg.TypesInfo.Uses[x].(*types.PkgName); ok {
					packs[n.Sel] = true
				}
			}
		}
		return true
	})
	for _, n := range slices.Backward(nodes) {
		switch n := n.(type) {
		case *ast.Ident:
			to, ok := r.rules.uses(r.pkg.TypesInfo.Uses[n], r.pkg.Fset)
			if !ok || keys[n] && to.group != "" || packs[n] && to.pkg != "" {
				continue
			}
			r.edit(n.Pos(), n.End(), to.path())
		case *ast.SelectorExpr:
			if to, ok := r.rules.uses(r.pkg.TypesInfo.Uses[n.Sel], r.pkg.Fset); ok && packs[n.Sel] && to.pkg != "" {
				r.edit(n.Pos(), n.End(), r.qualify(to.pkg)+to.name)
			}
		case *ast.CompositeLit:
			r.literal(n)
		case *ast.AssignStmt:
			if len(n.Rhs) == 1 && len(n.Lhs) == 2 && r.single(n.Rhs[0]) {
				handled[n.Rhs[0]] = r.assign(n, inInit[n])
			}
		case *ast.CallExpr:
			if len(n.Args) == 1 && r.single(n.Args[0]) && r.checks(n, handled[n]) {
				handled[n.Args[0]] = true
				r.replace(r.offset(n.Pos()), r.offset(n.End()), r.render(r.offset(n.Args[0].Pos()), r.offset(n.Args[0].End())))
			}
		}
	}
	for _, n := range nodes {
		if call, ok := n.(*ast.CallExpr); ok && !handled[call] && r.single(call) {
			r.note(call, "now returns one value, whose method Err returns the error")
		}
	}
	out := r.render(0, len(r.text))
	if len(r.edits) == 0 {
		return r.text, nil
	}
	return r.format([]byte(out))
}

// format adds the missing imports to the new text of the file, and formats it.
func (r *rewriter) format(text []byte) ([]byte, error) {
	for _, path := range r.imports { // by hand: to print a changed syntax tree would move comments
		if block := bytes.Index(text, []byte("\nimport (\n")); block >= 0 {
			end := block + bytes.Index(text[block:], []byte("\n)"))
			text = slices.Insert(text, end, []byte("\n\t\""+path+"\"")...)
		} else if line := bytes.Index(text, []byte("\nimport \"")); line >= 0 {
			text = slices.Insert(text, line+1, []byte("import \""+path+"\"\n")...)
		} else {
			return nil, fmt.Errorf("import %q by hand", path)
		}
	}
	out, err := format.Source(text)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	return out, nil
}

func (r *rewriter) offset(p token.Pos) int { return r.tok.Offset(p) }

func (r *rewriter) edit(from, to token.Pos, text string) {
	r.edits = append(r.edits, edit{r.offset(from), r.offset(to), text})
}

func (r *rewriter) note(n ast.Node, text string) {
	fmt.Fprintf(r.notes, "%v: %s\n", r.pkg.Fset.Position(n.Pos()), text)
}

// render returns a part of the file with its edits.
func (r *rewriter) render(from, to int) string {
	slices.SortFunc(r.edits, func(a, b edit) int { return a.from - b.from })
	var out strings.Builder
	at := from
	for _, e := range r.edits {
		if e.from < from || e.to > to {
			continue
		}
		out.Write(r.text[at:e.from])
		out.WriteString(e.text)
		at = e.to
	}
	out.Write(r.text[at:to])
	return out.String()
}

// replace replaces a part of the file, with the edits in it.
func (r *rewriter) replace(from, to int, text string) {
	r.edits = slices.DeleteFunc(r.edits, func(e edit) bool { return e.from >= from && e.to <= to })
	r.edits = append(r.edits, edit{from, to, text})
}

// qualify returns the name of an imported package with a dot, or "" for the package of the file. It
// imports the package if necessary.
func (r *rewriter) qualify(path string) string {
	if r.pkg.Types.Path() == path {
		return ""
	}
	for _, spec := range r.file.Imports {
		if name, ok := r.pkg.TypesInfo.Implicits[spec].(*types.PkgName); ok && name.Imported().Path() == path {
			return name.Name() + "."
		}
		if spec.Name != nil && strings.Trim(spec.Path.Value, `"`) == path {
			if spec.Name.Name == "." {
				return ""
			}
			return spec.Name.Name + "."
		}
	}
	if !slices.Contains(r.imports, path) {
		r.imports = append(r.imports, path)
	}
	return filepath.Base(path) + "."
}

// element is an element of a literal as text.
type element struct {
	lead, key, value, trail string // lead and trail are comments and space
	to                      target
}

// literal moves the fields of a literal of a struct into the groups that have them now.
func (r *rewriter) literal(lit *ast.CompositeLit) {
	if !slices.ContainsFunc(lit.Elts, func(e ast.Expr) bool { _, ok := r.keyOf(e); return ok }) {
		return
	}
	var elements []element
	at := r.offset(lit.Lbrace) + 1
	for i, e := range lit.Elts {
		kv := e.(*ast.KeyValueExpr)
		to, _ := r.keyOf(e)
		next := r.offset(lit.Rbrace)
		if i+1 < len(lit.Elts) {
			next = r.offset(lit.Elts[i+1].Pos())
		}
		end := r.offset(e.End())
		if n := bytes.IndexByte(r.text[end:next], ','); n >= 0 && !bytes.Contains(r.text[end:end+n], []byte("/")) {
			end += n + 1
		}
		line := end
		if n := bytes.IndexByte(r.text[end:next], '\n'); n >= 0 && bytes.Contains(r.text[end:end+n], []byte("//")) {
			line = end + n
		}
		elements = append(elements, element{
			lead: string(r.text[at:r.offset(e.Pos())]), key: string(r.text[r.offset(kv.Key.Pos()):r.offset(kv.Key.End())]),
			value: r.render(r.offset(kv.Value.Pos()), r.offset(kv.Value.End())), trail: string(r.text[end:line]), to: to,
		})
		at = line
	}
	var out strings.Builder
	done := make(map[string]bool)
	line := "" // the beginning of a line whose first element has moved
	for _, e := range elements {
		if !strings.Contains(e.lead, "\n") {
			e.lead = line + e.lead
		}
		line = ""
		group := e.to.group
		if group == "" {
			group = e.key
		}
		var moved []element // into the group
		for _, other := range elements {
			if other.to.group == group {
				moved = append(moved, other)
			}
		}
		switch {
		case e.to.group == "" && len(moved) > 0: // the literal has the group
			brace := strings.Index(e.value, "{")
			if brace < 0 || !strings.HasSuffix(e.value, "}") {
				r.note(lit, "move fields into "+e.key+" by hand")
				return
			}
			own := e.value[brace+1:]
			added := join(moved, strings.HasPrefix(own, "\n"))
			if !strings.HasSuffix(added, "\n") && own != "}" {
				added += ", "
			}
			e.value = e.value[:brace+1] + added + strings.TrimPrefix(own, "\n")
			out.WriteString(e.lead + e.key + ": " + e.value + "," + e.trail)
		case e.to.group == "":
			out.WriteString(e.lead + e.key + ": " + e.value + "," + e.trail)
		case done[group] || slices.ContainsFunc(elements, func(o element) bool { return o.to.group == "" && o.key == group }):
			if n := strings.LastIndex(e.lead, "\n"); n >= 0 {
				line = e.lead[n:]
			}
		default:
			done[group] = true
			lead, trail := e.lead, ""
			if len(moved) == 1 {
				trail = e.trail
				moved[0].lead, moved[0].trail = "", ""
			} else {
				if n := strings.LastIndex(lead, "\n"); n >= 0 {
					lead = lead[n:]
				}
			}
			out.WriteString(lead + group + ": " + r.qualify(e.to.pkg) + e.to.typ + "{" + join(moved, false) + "}," + trail)
		}
	}
	rest := string(r.text[at:r.offset(lit.Rbrace)])
	text := out.String()
	if !strings.Contains(rest, "\n") {
		text = strings.TrimSuffix(text, ",")
	}
	r.replace(r.offset(lit.Lbrace)+1, r.offset(lit.Rbrace), text+rest)
}

// keyOf returns where a field of a literal has moved to.
func (r *rewriter) keyOf(e ast.Expr) (target, bool) {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return target{}, false
	}
	key, ok := kv.Key.(*ast.Ident)
	if !ok {
		return target{}, false
	}
	to, ok := r.rules.uses(r.pkg.TypesInfo.Uses[key], r.pkg.Fset)
	return to, ok && to.group != ""
}

// join returns the elements of a group: in one line if they are short and have no comments.
func join(moved []element, lines bool) string {
	length := 0
	for _, e := range moved {
		length += len(e.value) + len(e.to.name) + 4
		lines = lines || len(moved) > 1 && strings.Contains(e.value, "\n") || strings.Contains(e.lead+e.trail, "//")
	}
	var out strings.Builder
	for i, e := range moved {
		if lines || length > 110 && len(moved) > 1 {
			out.WriteString("\n" + strings.TrimSpace(e.lead) + "\n" + e.to.name + ": " + e.value + "," + e.trail)
			if i == len(moved)-1 {
				out.WriteString("\n")
			}
			continue
		}
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(e.to.name + ": " + e.value)
	}
	return strings.ReplaceAll(out.String(), "\n\n", "\n")
}

// single reports whether an expression calls a function that returned an error as its second value,
// and now has it in its only one.
func (r *rewriter) single(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun := call.Fun
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	var id *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		id = f
	case *ast.SelectorExpr:
		id = f.Sel
	default:
		return false
	}
	return r.rules.single(r.pkg.TypesInfo.Uses[id], r.pkg.Fset)
}

// checks reports whether a call only checks the second value of its argument, and returns the first
// one, such as must(f()). The result of a statement counts for nothing.
func (r *rewriter) checks(call *ast.CallExpr, statement bool) bool {
	f, ok := r.pkg.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok || f.Params().Len() != 2 || f.Params().At(1).Type() != types.Universe.Lookup("error").Type() {
		return false
	}
	return statement && f.Results().Len() == 0 ||
		f.Results().Len() == 1 && types.Identical(f.Results().At(0).Type(), f.Params().At(0).Type())
}

// assign changes an assignment of the two results of a function that now returns one.
func (r *rewriter) assign(n *ast.AssignStmt, init bool) bool {
	value, failure := n.Lhs[0], n.Lhs[1]
	blank := func(e ast.Expr) bool { id, ok := e.(*ast.Ident); return ok && id.Name == "_" }
	text := func(x ast.Node) string { return r.render(r.offset(x.Pos()), r.offset(x.End())) }
	// A name is declared if it is new, as it was before.
	define := func(e ast.Expr) string {
		if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE && r.pkg.TypesInfo.Defs[id] != nil {
			return " := "
		}
		return " = "
	}
	call := text(n.Rhs[0])
	switch {
	case blank(failure) && blank(value):
		r.replace(r.offset(n.Pos()), r.offset(n.End()), call)
	case blank(failure):
		r.replace(r.offset(n.Pos()), r.offset(n.End()), text(value)+define(value)+call)
	case blank(value):
		r.replace(r.offset(n.Pos()), r.offset(n.End()), text(failure)+define(failure)+call+".Err()")
	case init:
		return false
	default:
		r.replace(r.offset(n.Pos()), r.offset(n.End()),
			text(value)+define(value)+call+"\n"+text(failure)+define(failure)+text(value)+".Err()")
	}
	return true
}
