package mcpwire_test

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A callback is a function of the application: a field or a parameter of the public API whose type
// is a function, or a method of a public interface. The library calls some of them in goroutines
// that it has started. There, a panic would end the process, so such calls run inside of package
// boundary: in a function that recovers, or below one.

// unguarded has the callbacks that goroutines call outside of package boundary, with the reason why
// no panic of the application can end the process there.
var unguarded = map[string]string{
	"field auth.Now":                "it is a clock, which tests set",
	"param Push.take":               "a session or a wrapper of this repository passes it",
	"param Subscribe.receive":       "a server passes it; it only queues notices",
	"streamable.EventStore.Forget":  "guardStore wraps it",
	"streamable.Locator.Alive":      "guardedLocator wraps it",
	"streamable.Locator.Release":    "guardedLocator wraps it",
	"streamable.SessionStore.Touch": "guardStore wraps it",
	"transport.Unwrapper.Unwrap":    "it returns a field",
}

// No panic of a callback ends the process, in all modules.
func TestCallbacksRunInsideBoundary(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks all modules")
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod").Output()
	if err != nil {
		t.Skip("without git:", err)
	}
	c := newChecker(t)
	for file := range strings.FieldsSeq(string(out)) {
		if dir := filepath.Dir(file); dir == "." || strings.HasPrefix(dir, "runtime/") {
			c.list(t, dir)
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(c.dirs)), func(name string) bool {
		return !strings.HasPrefix(name, own+"/runtime/") || strings.HasSuffix(name, "test") || strings.HasSuffix(name, "/conformance")
	})
	if len(names) < 60 {
		t.Fatalf("%d packages", len(names))
	}
	found, roots := c.callbacks(t, names)
	if roots < 100 {
		t.Errorf("%d goroutines", roots)
	}
	for _, callback := range slices.Sorted(maps.Keys(found)) {
		if unguarded[callback] == "" {
			t.Errorf("%s: a goroutine calls %s outside of package boundary", found[callback], callback)
		}
	}
	for callback := range unguarded {
		if found[callback] == "" {
			t.Errorf("no goroutine calls %s outside of package boundary", callback)
		}
	}
}

// The faults that the test above exists for are found.
func TestUnguardedCallbacksAreFound(t *testing.T) {
	c := newChecker(t)
	dir := t.TempDir()
	for name, source := range map[string]string{"boundary": `package boundary

func Catch(err *error) { recover() }
func Run(f func() error) (err error) { defer Catch(&err); return f() }
`, "callbacks": `package callbacks

import (
	"time"
	"` + own + `/runtime/internal/boundary"
)

type Config struct {
	Direct, Copied, Guarded, Below, Literal, Inline, Passed, Shielded func()
	Own func() // of the caller
	internal func()
}
type Hook interface { Called(); Caught() }
type inner struct { f func() }
type hooked struct{ f func() }
func (h hooked) Called() { h.f() }
func (h hooked) Caught() {}

func Start(cfg Config, h Hook, given func()) {
	cfg.Own()
	go cfg.run()
	in := &inner{f: cfg.Copied}
	go func() { in.f() }()
	go guarded(cfg, h)
	time.AfterFunc(1, func() { h.Called(); given() })
	go func() { each(func() { cfg.Inline() }) }()
	go func() { observe(func() { cfg.Shielded() }) }()
	_ = hooked{cfg.Passed}
}
func (c *Config) run() { c.Direct(); c.below() }
func (c *Config) below() { c.Below() }
func each(f func()) { f() }
func observe(f func()) { boundary.Run(func() error { f(); return nil }) }
func guarded(cfg Config, h Hook) (err error) {
	defer boundary.Catch(&err)
	cfg.Guarded()
	h.Caught()
	func() { cfg.Literal() }()
	return boundary.Run(func() error { cfg.Literal(); return nil })
}
`} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "x.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		pkg := own + "/runtime/callbacks"
		if name == "boundary" {
			pkg = own + "/runtime/internal/boundary"
		}
		c.dirs[pkg], c.files[pkg] = filepath.Join(dir, name), []string{"x.go"}
	}
	found, _ := c.callbacks(t, []string{own + "/runtime/callbacks"})
	want := []string{"callbacks.Hook.Called", "field callbacks.Below", "field callbacks.Copied", "field callbacks.Direct", "field callbacks.Inline", "field callbacks.Passed", "param Start.given"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("callbacks (-want +got):\n%s", diff)
	}
}

// calls finds the callbacks that goroutines call. It follows calls of functions and of methods, and
// calls of interfaces to all types of this repository. A function value that is stored in a field
// is followed to what is assigned to the field. A function literal counts as called where it
// stands.
type calls struct {
	*checker
	bodies map[*types.Func]*ast.FuncDecl
	fields map[*types.Var][]ast.Expr    // what is assigned to fields
	params map[*types.Var]*ast.FuncDecl // parameters of functions
	named  []*types.Named               // types that are no interfaces
	roots  []ast.Node                   // functions that goroutines begin with
	seen   map[ast.Node]bool
	found  map[string]string // callbacks, with the place of a call
}

// callbacks returns the callbacks that goroutines of packages call outside of package boundary,
// with the place of a call, and the number of goroutines.
func (c *checker) callbacks(t *testing.T, names []string) (found map[string]string, roots int) {
	t.Helper()
	c.info.Uses = map[*ast.Ident]types.Object{}
	g := &calls{
		checker: c, bodies: map[*types.Func]*ast.FuncDecl{}, fields: map[*types.Var][]ast.Expr{}, params: map[*types.Var]*ast.FuncDecl{},
		seen: map[ast.Node]bool{}, found: map[string]string{},
	}
	for _, visit := range []func(ast.Node) bool{g.index, g.addRoot} {
		for _, name := range names {
			if _, err := c.Import(name); err != nil {
				t.Fatal(err)
			}
			for _, file := range c.syntax[name] {
				ast.Inspect(file, visit)
			}
		}
	}
	for _, root := range g.roots {
		g.walk(root)
	}
	return g.found, len(g.roots)
}

// index records the functions, the types, and what is assigned to fields.
func (g *calls) index(n ast.Node) bool {
	assign := func(id *ast.Ident, value ast.Expr) {
		if v, ok := g.info.Uses[id].(*types.Var); ok && v.IsField() {
			g.fields[v.Origin()] = append(g.fields[v.Origin()], value)
		}
	}
	switch n := n.(type) {
	case *ast.TypeSpec:
		if o := g.info.Defs[n.Name]; o != nil {
			if named, ok := o.Type().(*types.Named); ok && !types.IsInterface(named) {
				g.named = append(g.named, named)
			}
		}
	case *ast.FuncDecl:
		if f, ok := g.info.Defs[n.Name].(*types.Func); ok {
			g.bodies[f] = n
			for v := range f.Signature().Params().Variables() {
				g.params[v] = n
			}
		}
	case *ast.CompositeLit:
		s, ok := g.info.TypeOf(n).Underlying().(*types.Struct)
		for i, value := range n.Elts {
			if kv, keyed := value.(*ast.KeyValueExpr); keyed {
				if id, ok := kv.Key.(*ast.Ident); ok {
					assign(id, kv.Value)
				}
			} else if ok && i < s.NumFields() {
				g.fields[s.Field(i).Origin()] = append(g.fields[s.Field(i).Origin()], value)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if s, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
				assign(s.Sel, n.Rhs[i])
			}
		}
	}
	return true
}

// addRoot records the function of a goroutine.
func (g *calls) addRoot(n ast.Node) bool {
	add := func(x ast.Expr) {
		if lit, ok := ast.Unparen(x).(*ast.FuncLit); ok {
			g.roots = append(g.roots, lit)
		} else if d := g.body(x); d != nil {
			g.roots = append(g.roots, d)
		}
	}
	switch n := n.(type) {
	case *ast.GoStmt:
		add(n.Call.Fun)
	case *ast.CallExpr:
		if g.starts(n) {
			for _, x := range n.Args {
				add(x)
			}
		}
	}
	return true
}

// function returns the function that an expression names, or nil.
func (g *calls) function(x ast.Expr) *types.Func {
	var f *types.Func
	switch x := ast.Unparen(x).(type) {
	case *ast.Ident:
		f, _ = g.info.Uses[x].(*types.Func)
	case *ast.SelectorExpr:
		f, _ = g.info.Uses[x.Sel].(*types.Func)
	case *ast.IndexExpr:
		return g.function(x.X)
	case *ast.IndexListExpr:
		return g.function(x.X)
	}
	if f == nil {
		return nil
	}
	return f.Origin()
}

// body returns the declaration of the function that an expression names, or nil if it is not one of
// the packages.
func (g *calls) body(x ast.Expr) *ast.FuncDecl {
	if f := g.function(x); f != nil {
		return g.bodies[f]
	}
	return nil
}

// starts reports whether a call runs its function in another goroutine.
func (g *calls) starts(call *ast.CallExpr) bool {
	f := g.function(call.Fun)
	if f == nil || f.Pkg() == nil {
		return false
	}
	switch f.Pkg().Path() + "." + f.Name() {
	case "sync.Go", "context.AfterFunc", "time.AfterFunc", own + "/runtime/task.spawn":
		return true
	}
	return false
}

// recovers reports whether a function recovers panics.
func (g *calls) recovers(body *ast.BlockStmt) (yes bool) {
	for _, s := range body.List {
		d, ok := s.(*ast.DeferStmt)
		if !ok {
			continue
		}
		if f := g.function(d.Call.Fun); f != nil && (f.Name() == "Catch" || f.Name() == "recovered") {
			return true
		}
		if lit, ok := d.Call.Fun.(*ast.FuncLit); ok {
			ast.Inspect(lit, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				yes = yes || ok && id.Name == "recover"
				return true
			})
		}
	}
	return yes
}

// isRun reports whether a call is one of boundary.Run.
func (g *calls) isRun(call *ast.CallExpr) bool {
	f := g.function(call.Fun)
	return f != nil && f.Name() == "Run" && f.Pkg().Path() == own+"/runtime/internal/boundary"
}

// shields reports whether a call runs the functions that it gets inside of package boundary.
func (g *calls) shields(call *ast.CallExpr) (yes bool) {
	if g.isRun(call) {
		return true
	}
	d := g.body(call.Fun)
	if d == nil || d.Body == nil {
		return false
	}
	if g.recovers(d.Body) {
		return true
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		inner, ok := n.(*ast.CallExpr)
		if !ok || !g.isRun(inner) {
			return true
		}
		ast.Inspect(inner, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				v, ok := g.info.Uses[id].(*types.Var)
				yes = yes || ok && g.params[v] == d && isFunction(v)
			}
			return true
		})
		return true
	})
	return yes
}

func isFunction(v *types.Var) bool {
	_, ok := v.Type().Underlying().(*types.Signature)
	return ok
}

// walk follows the calls of a function.
func (g *calls) walk(function ast.Node) {
	var body *ast.BlockStmt
	switch f := function.(type) {
	case *ast.FuncDecl:
		body = f.Body
	case *ast.FuncLit:
		body = f.Body
	}
	if g.seen[function] || body == nil || g.recovers(body) {
		return
	}
	g.seen[function] = true
	shielded := map[ast.Node]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt: // a root
			return false
		case *ast.FuncLit:
			if !shielded[n] {
				g.walk(n)
			}
			return false
		case *ast.CallExpr:
			if g.starts(n) {
				return false
			}
			if g.shields(n) {
				for _, x := range n.Args {
					shielded[x] = true
				}
			}
			if !shielded[n] {
				g.call(ast.Unparen(n.Fun), 0)
			}
		}
		return true
	})
}

// note records a callback.
func (g *calls) note(callback string, at ast.Node) {
	if g.found[callback] == "" {
		g.found[callback] = g.fset.Position(at.Pos()).String()
	}
}

// call follows a call of x.
func (g *calls) call(x ast.Expr, depth int) {
	if lit, ok := x.(*ast.FuncLit); ok {
		g.walk(lit)
		return
	}
	if f := g.function(x); f != nil {
		if d := g.bodies[f]; d != nil {
			g.walk(d)
		} else if r := f.Signature().Recv(); r != nil && types.IsInterface(r.Type()) {
			g.dispatch(f, r.Type(), x)
		}
		return
	}
	var v *types.Var
	switch x := x.(type) {
	case *ast.Ident:
		v, _ = g.info.Uses[x].(*types.Var)
	case *ast.SelectorExpr:
		v, _ = g.info.Uses[x.Sel].(*types.Var)
	}
	if v == nil || v.Pkg() == nil || !strings.HasPrefix(v.Pkg().Path(), own) || depth > 5 {
		return
	}
	public := !strings.Contains(v.Pkg().Path(), "/internal/")
	if v = v.Origin(); !v.IsField() {
		if d := g.params[v]; d != nil && d.Name.IsExported() && public {
			g.note("param "+d.Name.Name+"."+v.Name(), x)
		}
		return
	}
	if v.Exported() && public {
		g.note("field "+v.Pkg().Name()+"."+v.Name(), x)
	}
	for _, value := range g.fields[v] {
		g.call(ast.Unparen(value), depth+1)
	}
}

// dispatch follows a call of a method of an interface.
func (g *calls) dispatch(f *types.Func, of types.Type, at ast.Node) {
	named, ok := of.(*types.Named)
	if !ok || f.Pkg() == nil || !strings.HasPrefix(f.Pkg().Path(), own+"/runtime/") {
		return
	}
	if named.Obj().Exported() && !strings.Contains(f.Pkg().Path(), "/internal/") {
		g.note(text(of)+"."+f.Name(), at)
	}
	for _, t := range g.named {
		p := types.NewPointer(t)
		if t.TypeParams() != nil || !types.Implements(p, of.Underlying().(*types.Interface)) {
			continue
		}
		if m, _, _ := types.LookupFieldOrMethod(p, true, f.Pkg(), f.Name()); m != nil {
			if d := g.bodies[m.(*types.Func).Origin()]; d != nil {
				g.walk(d)
			}
		}
	}
}
