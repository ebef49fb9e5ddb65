package mcpwire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An ability is an interface that values of another interface of this repository may have, found by
// a type assertion. A type that wraps such a value and does not pass the ability on hides it. So
// what must not be lost belongs into the interface itself, as in task.Store and oauth.Store. The
// abilities that exist nevertheless are listed here.

// kept has the abilities that wrappers in this repository must not hide: those of connections,
// which wrappers keep by a method Unwrap.
var kept = []string{
	"streamable.EventStore streamable.SessionStore",
	"transport.Conn mailbox.Conn",
	"transport.Conn transport.Described",
	"transport.Conn ability.Detachable",
	"transport.Conn ability.Forgetter",
	"transport.Conn transport.HalfCloser",
	"transport.Conn ability.Owned",
	"transport.Conn transport.Persister",
	"transport.Conn transport.Reopener",
	"transport.Conn transport.Unwrapper",
}

// harmless has the abilities that a wrapper may hide, with what happens then.
var harmless = map[string]string{
	"auth.Verifier interface{CacheTTL() time.Duration}":  "each request is verified, unless Options.CacheTTL is set",
	"auth.Verifier auth.ProofVerifier":                   "requests with DPoP are rejected, and NewProtector fails if DPoP is required",
	"session.Peer interface{Session() *session.Session}": "the limit of log messages is that of the session that created the task",
	"task.Requestor task.Capable":                        "input requests are sent to a requestor that may not support them, and fail",
	"transport.Conn ability.Pusher":                      "the session reads in a goroutine; a wrapper of Read must not have it",
	"transport.Reply modern.Checked":                     "the version is read once more, and of requests that wait, only subscriptions/listen ends with its token",
}

// complete are wrappers that pass an ability on in another way.
var complete = map[string]string{
	"process":       "a child process is started again when it ends; its end and its description are those of each process",
	"guardedEvents": "guardStore returns a guardedSessions for a SessionStore",
}

// values are interfaces of data. Their other interfaces are no abilities.
var values = []string{"codec.Encoder", "codec.Decoder", "codec.Value", "mcp.ContentBlock", "mcp.SamplingMessageContentBlock"}

// Wrappers hide no ability of the values that they wrap, in all modules.
func TestWrappersHideNoAbilities(t *testing.T) {
	if testing.Short() {
		t.Skip("type-checks all modules")
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*go.mod").Output()
	if err != nil {
		t.Skip("without git:", err)
	}
	c := newChecker(t)
	for file := range strings.FieldsSeq(string(out)) {
		if !strings.Contains(file, "testdata/") {
			c.list(t, filepath.Dir(file))
		}
	}
	if len(c.dirs) < 100 {
		t.Fatalf("%d packages", len(c.dirs))
	}
	names := slices.Sorted(maps.Keys(c.dirs))
	for _, fault := range c.check(names, harmless) {
		t.Error(fault)
	}
	known := slices.Sorted(slices.Values(slices.Concat(kept, slices.Collect(maps.Keys(harmless)))))
	if diff := cmp.Diff(known, slices.Sorted(maps.Keys(c.allAbilities(names)))); diff != "" {
		t.Errorf("abilities (-known +found):\n%s", diff)
	}
}

// The faults that the test above exists for are found.
func TestHiddenAbilitiesAreFound(t *testing.T) {
	c := newChecker(t)
	dir := t.TempDir()
	const source = `package wrapped

type Store interface { Get() int }
type Clock interface { Now() int }
type Checker interface { Health() error }
type Conn interface { Read() int }
type Unwrapper interface { Conn; Unwrap() Conn }
type Pusher interface { Conn; Push() }

func As[T Conn](c Conn) (t T, ok bool) { t, ok = c.(T); return t, ok }

func use(s Store, c Conn) {
	if clock, ok := s.(Clock); ok { clock.Now() }
	switch h := s.(type) { case Checker: h.Health() }
	As[Pusher](c)
}

type counted struct { Store; n int }             // hides both
type held struct { inner Store }                 // hides both
func (h *held) Get() int { return h.inner.Get() }
type keeps struct { Store; Clock; Checker }
func wrap(s Store, c Clock) Store { return struct { Store; Clock }{s, c} } // hides Health
type uses struct { s Store }                     // is no Store
type logged struct { Conn }                      // hides Pusher
type unwrapped struct { Conn }
func (u unwrapped) Unwrap() Conn { return u.Conn }
`
	if err := os.WriteFile(filepath.Join(dir, "wrapped.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	const pkg = own + "/wrapped"
	c.dirs[pkg], c.files[pkg] = dir, []string{"wrapped.go"}
	var got []string
	for _, fault := range c.check([]string{pkg}, nil) {
		_, fault, _ = strings.Cut(fault, ": ")
		got = append(got, fault)
	}
	want := []string{
		"counted holds a wrapped.Store and hides the ability wrapped.Clock",
		"counted holds a wrapped.Store and hides the ability wrapped.Checker",
		"held holds a wrapped.Store and hides the ability wrapped.Clock",
		"held holds a wrapped.Store and hides the ability wrapped.Checker",
		"struct{wrapped.Store; wrapped.Clock} holds a wrapped.Store and hides the ability wrapped.Checker",
		"logged holds a wrapped.Conn and hides the ability wrapped.Pusher",
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// own is the path of all modules of this repository.
const own = "github.com/mcpwire/mcpwire"

// checker type-checks the packages of this repository, without their tests. Packages of other
// modules are empty: what depends on them has an invalid type.
type checker struct {
	fset     *token.FileSet
	standard types.Importer
	dirs     map[string]string   // by import path
	files    map[string][]string // names of files, by import path
	packages map[string]*types.Package
	syntax   map[string][]*ast.File
	info     types.Info
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-f", "{{.ImportPath}} {{.Export}}", "std").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			exports[name] = file
		}
	}
	fset := token.NewFileSet()
	return &checker{
		fset: fset,
		standard: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if exports[path] == "" {
				return nil, errors.New("not in the standard library")
			}
			return os.Open(exports[path])
		}),
		dirs: map[string]string{}, files: map[string][]string{}, packages: map[string]*types.Package{}, syntax: map[string][]*ast.File{},
		info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{}, Defs: map[*ast.Ident]types.Object{}},
	}
}

// list adds the packages of the module in a directory.
func (c *checker) list(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Dir,GoFiles", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s in %s: %v", cmd, dir, err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		c.dirs[p.ImportPath], c.files[p.ImportPath] = p.Dir, p.GoFiles
	}
}

// Import implements [types.Importer].
func (c *checker) Import(name string) (*types.Package, error) {
	if p := c.packages[name]; p != nil {
		return p, nil
	}
	if c.dirs[name] == "" {
		p, err := c.standard.Import(name)
		if err != nil {
			p = types.NewPackage(name, path.Base(name))
			p.MarkComplete()
		}
		c.packages[name] = p
		return p, nil
	}
	var files []*ast.File
	for _, file := range c.files[name] {
		f, err := parser.ParseFile(c.fset, filepath.Join(c.dirs[name], file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	config := types.Config{Importer: c, Error: func(error) {}}
	p, _ := config.Check(name, c.fset, files, &c.info)
	c.packages[name], c.syntax[name] = p, files
	return p, nil
}

// ability is an interface that the values of another one may have.
type ability struct {
	of, is types.Type
	// unwrapped is set if it is also found in what a wrapper returns by its method Unwrap.
	unwrapped bool
}

// allAbilities returns the abilities that packages look for, by their text.
func (c *checker) allAbilities(names []string) map[string]ability {
	found := map[string]ability{}
	for _, name := range names {
		for _, file := range c.syntax[name] {
			ast.Inspect(file, func(n ast.Node) bool {
				for _, a := range c.abilities(n) {
					if !slices.Contains(values, text(a.of)) {
						found[text(a.of)+" "+text(a.is)] = a
					}
				}
				return true
			})
		}
	}
	return found
}

// check returns the faults of packages. Abilities in harmless may be hidden.
func (c *checker) check(names []string, harmless map[string]string) (faults []string) {
	for _, name := range names {
		if _, err := c.Import(name); err != nil {
			return []string{err.Error()}
		}
	}
	abilities := c.allAbilities(names)
	maps.DeleteFunc(abilities, func(key string, _ ability) bool { return harmless[key] != "" })
	for _, name := range names {
		for _, file := range c.syntax[name] {
			named := map[ast.Expr]types.Type{}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.TypeSpec:
					if o := c.info.Defs[n.Name]; o != nil {
						named[n.Type] = o.Type()
					}
				case *ast.StructType:
					t := named[n]
					if t == nil {
						t = c.info.Types[n].Type
					}
					for _, key := range slices.Sorted(maps.Keys(abilities)) {
						a, wrapper := abilities[key], strings.TrimPrefix(text(t), path.Base(name)+".")
						if c.hides(t, a) && complete[wrapper] == "" {
							faults = append(faults, fmt.Sprintf("%s: %s holds a %s and hides the ability %s", c.fset.Position(n.Pos()), wrapper, text(a.of), text(a.is)))
						}
					}
				}
				return true
			})
		}
	}
	return faults
}

// text returns the name of a type, with the names of packages instead of their paths.
func text(t types.Type) string { return types.TypeString(t, (*types.Package).Name) }

// abilities returns the abilities that a node looks for.
func (c *checker) abilities(n ast.Node) (list []ability) {
	add := func(x, t types.Type, unwrapped bool) {
		of, ok := types.Unalias(x).(*types.Named)
		if !ok || of.Obj().Pkg() == nil || !strings.HasPrefix(of.Obj().Pkg().Path(), own) || t == nil || !types.IsInterface(x) || !types.IsInterface(t) {
			return
		}
		if _, parameter := types.Unalias(t).(*types.TypeParam); parameter || t.Underlying().(*types.Interface).Empty() || types.Implements(x, t.Underlying().(*types.Interface)) {
			return
		}
		list = append(list, ability{of, t, unwrapped})
	}
	switch n := n.(type) {
	case *ast.TypeAssertExpr:
		if n.Type != nil {
			add(c.info.TypeOf(n.X), c.info.TypeOf(n.Type), false)
		}
	case *ast.TypeSwitchStmt:
		var x ast.Expr
		switch s := n.Assign.(type) {
		case *ast.AssignStmt:
			x = s.Rhs[0].(*ast.TypeAssertExpr).X
		case *ast.ExprStmt:
			x = s.X.(*ast.TypeAssertExpr).X
		}
		for _, clause := range n.Body.List {
			for _, t := range clause.(*ast.CaseClause).List {
				add(c.info.TypeOf(x), c.info.TypeOf(t), false)
			}
		}
	case *ast.CallExpr: // As[T](x)
		index, ok := n.Fun.(*ast.IndexExpr)
		if !ok || len(n.Args) != 1 {
			return nil
		}
		name, ok := index.X.(*ast.Ident)
		if s, selected := index.X.(*ast.SelectorExpr); selected {
			name, ok = s.Sel, true
		}
		if ok && name.Name == "As" {
			if s, generic := c.info.TypeOf(n.Fun).(*types.Signature); generic && s.Params().Len() == 1 {
				add(s.Params().At(0).Type(), c.info.TypeOf(index.Index), true)
			}
		}
	}
	return list
}

// hides reports whether values of the type t wrap values that may have an ability, and lack it.
func (c *checker) hides(t types.Type, a ability) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	if n, ok := t.(*types.Named); ok && n.TypeParams() != nil {
		return false
	}
	of, is := a.of.Underlying().(*types.Interface), a.is.Underlying().(*types.Interface)
	has := func(i *types.Interface) bool {
		return types.Implements(t, i) || types.Implements(types.NewPointer(t), i)
	}
	if !has(of) || has(is) {
		return false
	}
	if o, _, _ := types.LookupFieldOrMethod(types.NewPointer(t), true, nil, "Unwrap"); a.unwrapped && o != nil {
		return false
	}
	for i := range s.NumFields() {
		if f := s.Field(i).Type(); types.IsInterface(f) && types.Implements(f, of) {
			return true
		}
	}
	return false
}
