package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/atombender/go-jsonschema/pkg/generator"
	_ "github.com/go-viper/mapstructure/v2" // imported by the generated code

	"github.com/mcpwire/mcpwire/schema"
	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

// goFiles are go.mod and go.sum. The module with the generated code needs the same versions.
//
//go:embed go.mod go.sum
var goFiles embed.FS

// Flavour is one way to run go-jsonschema.
type Flavour struct {
	Name       string // Markdown, with the flag of its command line
	OnlyModels bool
}

// flavours are tried in this order. The comparison uses the first whose output compiles.
var flavours = [...]Flavour{
	{Name: "by default"},
	{Name: "with `--only-models`", OnlyModels: true},
}

// Generation is the output of go-jsonschema for one schema in one flavour.
type Generation struct {
	Flavour  Flavour
	Source   []byte
	Warnings []string
	Failed   string   // the error of the generator; "" if there is source
	Errors   []string // of the compiler
}

// OK reports whether the output can be used.
func (g *Generation) OK() bool { return g.Failed == "" && len(g.Errors) == 0 }

// Generated is the output of go-jsonschema for one schema, in each flavour.
type Generated struct {
	Rev         string
	Generations [len(flavours)]Generation
}

// Chosen returns the generation that the comparison uses, or nil if no output compiles.
func (g *Generated) Chosen() *Generation {
	for i := range g.Generations {
		if g.Generations[i].OK() {
			return &g.Generations[i]
		}
	}
	return nil
}

// generate runs go-jsonschema on every schema, compiles the outputs in a temporary folder, and
// sends the inputs through them in one process.
func generate(inputs []Input) (schemas []*Generated, trials map[Input]probe.Trial, err error) {
	dir, err := os.MkdirTemp("", "compare-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	if err := writeModule(dir); err != nil {
		return nil, nil, err
	}
	for _, rev := range slices.Concat(schema.Revisions(), schema.Extensions()) {
		g := &Generated{Rev: rev}
		schemas = append(schemas, g)
		for i, f := range flavours {
			if g.Generations[i], err = runGenerator(dir, rev, f); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := compile(dir, schemas); err != nil {
		return nil, nil, err
	}
	trials, err = runGenerated(dir, schemas, inputs)
	return schemas, trials, err
}

// writeModule makes dir a module with the versions of this one.
func writeModule(dir string) error {
	mod, err := goFiles.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sum, err := goFiles.ReadFile("go.sum")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("module generated\n\n")
	for line := range strings.Lines(string(mod)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		switch {
		case strings.HasPrefix(line, "go "):
			fmt.Fprintln(&b, line)
		case strings.HasPrefix(line, "github.com/go-viper/mapstructure/"):
			fmt.Fprintln(&b, "require", line)
		}
	}
	return errors.Join(
		write(dir, "go.mod", b.Bytes()),
		write(dir, "go.sum", sum),
		write(dir, "probe/probe.go", []byte(probe.Source)))
}

func write(dir, name string, data []byte) error {
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o666)
}

// packageName is the name of the package for a revision.
func packageName(rev string) string {
	return "r" + strings.Map(func(c rune) rune {
		if c == '-' {
			return -1
		}
		return c
	}, rev)
}

// folder returns the path of a revision's package relative to the module, with slashes.
func folder(rev string, f Flavour) string {
	if f.OnlyModels {
		return "models/" + packageName(rev)
	}
	return "full/" + packageName(rev)
}

// runGenerator generates a package with the default settings of go-jsonschema's command line. The
// error reports a file that could not be written. If go-jsonschema fails, Failed of the result is
// set instead.
func runGenerator(dir, rev string, f Flavour) (g Generation, err error) {
	g.Flavour = f
	src, err := schema.Read(rev)
	if err != nil {
		return g, err
	}
	file := rev + "/schema.json"
	if err := write(dir, file, src); err != nil {
		return g, err
	}
	name := folder(rev, f) + "/schema.go"
	if g.Source, err = generateSource(filepath.Join(dir, file), name, generator.Config{
		DefaultPackageName: packageName(rev),
		DefaultOutputName:  name,
		OnlyModels:         f.OnlyModels,
		Tags:               []string{"json", "yaml", "mapstructure"},
		YAMLExtensions:     []string{".yml", ".yaml"},
		Warner:             func(message string) { g.Warnings = append(g.Warnings, message) },
	}); err != nil {
		g.Failed = strings.ReplaceAll(err.Error(), dir, "")
		return g, nil
	}
	return g, write(dir, name, g.Source)
}

func generateSource(file, name string, config generator.Config) (source []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	g, err := generator.New(config)
	if err != nil {
		return nil, err
	}
	if err := g.DoFile(file); err != nil {
		return nil, err
	}
	sources, err := g.Sources()
	if err != nil {
		return nil, err
	}
	return sources[name], nil
}

// compile builds every package and stores the errors of the compiler.
func compile(dir string, schemas []*Generated) error {
	out, err := goCommand(dir, "build", "-trimpath", "-gcflags=-e", "./full/...", "./models/...").CombinedOutput()
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exec.ExitError](err); !ok {
		return err
	}
	faults := map[string][]string{}
	path := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "# "); ok {
			path = p
		} else if _, fault, ok := strings.Cut(line, "schema.go:"); ok && path != "" {
			faults[path] = append(faults[path], fault)
		} else {
			return fmt.Errorf("go build: %s", out)
		}
	}
	for _, g := range schemas {
		for i, f := range flavours {
			g.Generations[i].Errors = faults["generated/"+folder(g.Rev, f)]
		}
	}
	return nil
}

// goCommand returns a go command that runs in the module at dir.
func goCommand(dir string, args ...string) *exec.Cmd {
	c := exec.Command("go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	return c
}

// runGenerated sends the inputs through the generated types.
func runGenerated(dir string, schemas []*Generated, inputs []Input) (map[Input]probe.Trial, error) {
	var imports, types strings.Builder
	sources := map[string]*Generation{}
	for _, g := range schemas {
		if c := g.Chosen(); c != nil && slices.ContainsFunc(inputs, func(in Input) bool { return in.Rev == g.Rev }) {
			sources[g.Rev] = c
			fmt.Fprintf(&imports, "%q\n", "generated/"+folder(g.Rev, c.Flavour))
		}
	}
	seen := map[string]bool{}
	for _, in := range inputs {
		key := in.Rev + " " + in.Def
		if c := sources[in.Rev]; c != nil && !seen[key] {
			seen[key] = true
			ok, err := declares(c.Source, in.Def)
			if err != nil {
				return nil, err
			}
			if ok {
				fmt.Fprintf(&types, "%q: new(%s.%s),\n", key, packageName(in.Rev), in.Def)
			}
		}
	}
	main := strings.NewReplacer("IMPORTS", imports.String(), "TYPES", types.String()).Replace(runner)
	if err := write(dir, "main.go", []byte(main)); err != nil {
		return nil, err
	}
	in, err := json.Marshal(documents(inputs))
	if err != nil {
		return nil, err
	}
	c := goCommand(dir, "run", "-trimpath", ".")
	var stderr bytes.Buffer
	c.Stdin, c.Stderr = bytes.NewReader(in), &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go run: %w\n%s", err, &stderr)
	}
	var list []probe.Trial
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	trials := map[Input]probe.Trial{}
	for i, in := range inputs {
		trials[in] = list[i]
	}
	return trials, nil
}

// document is an input for the runner. Doc is bytes, because it need not be valid UTF-8.
type document struct {
	Type, Subject string
	Doc           []byte
}

func documents(inputs []Input) []document {
	var list []document
	for _, in := range inputs {
		list = append(list, document{in.Rev + " " + in.Def, in.Subject, []byte(in.Doc)})
	}
	return list
}

// runner is the source of the program that imports the generated packages.
const runner = `package main

import (
	"encoding/json"
	"os"

	"generated/probe"
	IMPORTS
)

var types = map[string]any{
	TYPES
}

func main() {
	var list []struct {
		Type, Subject string
		Doc           []byte
	}
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		panic(err)
	}
	trials := make([]probe.Trial, len(list))
	for i, d := range list {
		if zero, ok := types[d.Type]; ok {
			trials[i] = probe.Run(d.Doc, d.Subject, probe.Unmarshal(zero), probe.Marshal)
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(trials); err != nil {
		panic(err)
	}
}
`

// declares reports whether a Go source declares a type.
func declares(source []byte, name string) (bool, error) {
	spec, err := declaration(source, name)
	return spec != nil, err
}

// declaration returns the declaration of a type, or nil if there is none.
func declaration(source []byte, name string) (*ast.TypeSpec, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		d, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok && s.Name.Name == name {
				return s, nil
			}
		}
	}
	return nil, nil
}

func goJSONSchema(trials map[Input]probe.Trial) Peer {
	return Peer{
		Name:   "go-jsonschema",
		Module: "github.com/atombender/go-jsonschema",
		How: "Its generator runs on the schema of each row's revision with the default settings of its command line. encoding/json " +
			"then decodes into the type with the name of the definition. If the output does not compile, the output of `--only-models` " +
			"is used, which does not validate.",
		Attempt: func(in Input) probe.Trial { return trials[in] },
	}
}
