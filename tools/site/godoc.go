package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"html"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// loadPackages adds a page for each package that users may import.
func (s *site) loadPackages() error {
	var list strings.Builder
	list.WriteString("<h1 id=\"packages\">Packages</h1>\n<p>The documentation of the Go packages of mcpwire, in all of its modules.</p>\n<div class=\"scroll\"><table>\n")
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == root {
			return err
		}
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"internal", "testdata", "node_modules"}, d.Name()) || slices.Contains([]string{"tools", "examples", "docs"}, name) {
			return filepath.SkipDir
		}
		pkg, err := readPackage(dir, module+"/"+name)
		if err != nil || pkg == nil {
			return err
		}
		p, err := pkg.page(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(&list, "<tr><td><a href=\"go:%s\">%s</a></td><td>%s</td></tr>\n", pkg.ImportPath, name, html.EscapeString(pkg.Synopsis(pkg.Doc)))
		return s.add(p, "go:"+pkg.ImportPath)
	})
	if err != nil {
		return err
	}
	list.WriteString("</table></div>\n")
	index := &page{name: "go/index.html", title: "Packages", source: "go", sections: []section{{id: "packages", title: "Packages", level: 1, html: list.String()}}}
	return s.add(index, "go:"+module)
}

// A goPackage is the documentation of a package.
type goPackage struct {
	*doc.Package
	fset *token.FileSet
}

// readPackage returns nil for a folder without a package that can be imported.
func readPackage(dir, importPath string) (*goPackage, error) {
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled = "linux", "amd64", false // the same page everywhere
	found, err := context.ImportDir(dir, 0)
	if _, none := err.(*build.NoGoError); none || err == nil && (found.Name == "main" || len(found.GoFiles) == 0) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range slices.Concat(found.GoFiles, found.TestGoFiles, found.XTestGoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(fset, files, importPath)
	if err != nil {
		return nil, err
	}
	return &goPackage{pkg, fset}, nil
}

// page renders the package. Anchors are those of pkg.go.dev.
func (p *goPackage) page(name string) (*page, error) {
	out := &page{name: "go/" + name + ".html", title: "package " + p.Name, source: name}
	var b strings.Builder
	begin := func(id, title string, level int) {
		b.Reset()
		fmt.Fprintf(&b, "<h%d id=\"%s\">%s</h%d>\n", level, id, html.EscapeString(title), level)
	}
	end := func(id, title string, level int) {
		out.sections = append(out.sections, section{id: id, title: title, level: level, html: b.String(), text: title})
	}
	begin("package-"+p.Name, out.title, 1)
	if code, err := highlight("go", fmt.Sprintf("import %q", p.ImportPath)); err != nil {
		return nil, err
	} else {
		b.WriteString(code)
	}
	b.WriteString(p.comment(p.Doc))
	p.contents(&b)
	if err := p.examples(&b, p.Examples); err != nil {
		return nil, err
	}
	end("package-"+p.Name, out.title, 1)
	out.sections[0].text = p.Doc
	for _, group := range []struct {
		id, title string
		values    []*doc.Value
	}{{"pkg-constants", "Constants", p.Consts}, {"pkg-variables", "Variables", p.Vars}} {
		if len(group.values) == 0 {
			continue
		}
		begin(group.id, group.title, 2)
		if err := p.values(&b, group.values); err != nil {
			return nil, err
		}
		end(group.id, group.title, 2)
		for _, v := range group.values {
			out.sections[len(out.sections)-1].text += " " + strings.Join(v.Names, " ")
		}
	}
	for _, f := range p.Funcs {
		begin(f.Name, "func "+f.Name, 2)
		if err := p.function(&b, f); err != nil {
			return nil, err
		}
		end(f.Name, f.Name, 2)
	}
	for _, t := range p.Types {
		begin(t.Name, "type "+t.Name, 2)
		if err := p.declaration(&b, t.Decl, t.Doc); err != nil {
			return nil, err
		}
		if err := p.values(&b, slices.Concat(t.Consts, t.Vars)); err != nil {
			return nil, err
		}
		if err := p.examples(&b, t.Examples); err != nil {
			return nil, err
		}
		end(t.Name, t.Name, 2)
		for _, f := range slices.Concat(t.Funcs, t.Methods) {
			id, title := f.Name, f.Name
			if f.Recv != "" {
				id, title = t.Name+"."+f.Name, t.Name+"."+f.Name
			}
			begin(id, "func "+title, 3)
			if err := p.function(&b, f); err != nil {
				return nil, err
			}
			end(id, title, 3)
		}
	}
	return out, nil
}

// contents writes the index of the exported names.
func (p *goPackage) contents(b *strings.Builder) {
	b.WriteString("<h2 id=\"pkg-index\">Index</h2>\n<ul class=\"index\">\n")
	item := func(id string) { fmt.Fprintf(b, "<li><a href=\"go:%s#%s\">%s</a>\n", p.ImportPath, id, id) }
	for _, f := range p.Funcs {
		item(f.Name)
	}
	for _, t := range p.Types {
		item(t.Name)
		for _, f := range t.Funcs {
			item(f.Name)
		}
	}
	b.WriteString("</ul>\n")
	examples := p.Examples
	for _, f := range p.Funcs {
		examples = append(examples, f.Examples...)
	}
	for _, t := range p.Types {
		examples = append(examples, t.Examples...)
		for _, f := range slices.Concat(t.Funcs, t.Methods) {
			examples = append(examples, f.Examples...)
		}
	}
	if len(examples) > 0 {
		b.WriteString("<h2 id=\"pkg-examples\">Examples</h2>\n<ul class=\"index\">\n")
		for _, e := range examples {
			id := exampleID(e)
			fmt.Fprintf(b, "<li><a href=\"go:%s#%s\">%s</a>\n", p.ImportPath, id, strings.TrimPrefix(id, "example-"))
		}
		b.WriteString("</ul>\n")
	}
}

// exampleID returns the anchor that pkg.go.dev gives an example.
func exampleID(e *doc.Example) string {
	name := strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(e.Name, e.Suffix), "_"), "_", ".")
	if name == "" {
		name = "package"
	}
	if e.Suffix != "" {
		name += "-" + strings.ToUpper(e.Suffix[:1]) + e.Suffix[1:]
	}
	return "example-" + name
}

func (p *goPackage) values(b *strings.Builder, values []*doc.Value) error {
	for _, v := range values {
		for _, name := range v.Names {
			if ast.IsExported(name) {
				fmt.Fprintf(b, "<span id=\"%s\"></span>", name)
			}
		}
		if err := p.declaration(b, v.Decl, v.Doc); err != nil {
			return err
		}
	}
	return nil
}

func (p *goPackage) function(b *strings.Builder, f *doc.Func) error {
	f.Decl.Body = nil
	if err := p.declaration(b, f.Decl, f.Doc); err != nil {
		return err
	}
	return p.examples(b, f.Examples)
}

func (p *goPackage) declaration(b *strings.Builder, decl ast.Decl, text string) error {
	code, err := p.source(decl)
	if err != nil {
		return err
	}
	out, err := highlight("go", code)
	if err != nil {
		return err
	}
	b.WriteString(out + p.comment(text))
	return nil
}

func (p *goPackage) source(node any) (string, error) {
	var b bytes.Buffer
	err := format.Node(&b, p.fset, node)
	return b.String(), err
}

func (p *goPackage) examples(b *strings.Builder, examples []*doc.Example) error {
	for _, e := range examples {
		var node any = &printer.CommentedNode{Node: e.Code, Comments: e.Comments}
		if e.Play != nil {
			node = e.Play
		}
		code, err := p.source(node)
		if err != nil {
			return err
		}
		out, err := highlight("go", code)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "<details id=\"%s\"><summary>Example %s</summary>\n%s%s", exampleID(e), e.Suffix, p.comment(e.Doc), out)
		if e.Output != "" {
			fmt.Fprintf(b, "<p>Output:</p>\n<pre><code>%s</code></pre>\n", html.EscapeString(e.Output))
		}
		b.WriteString("</details>\n")
	}
	return nil
}

// comment renders a doc comment. Its links are references.
func (p *goPackage) comment(text string) string {
	pr := p.Printer()
	pr.HeadingLevel = 3
	pr.DocLinkURL = func(link *comment.DocLink) string {
		target := link.ImportPath
		if target == "" {
			target = p.ImportPath
		}
		if !strings.HasPrefix(target, module) {
			return link.DefaultURL("https://pkg.go.dev")
		}
		switch {
		case link.Recv != "":
			target += "#" + link.Recv + "." + link.Name
		case link.Name != "":
			target += "#" + link.Name
		}
		return "go:" + target
	}
	out := string(pr.HTML(p.Parser().Parse(text)))
	return strings.ReplaceAll(out, `href="https://pkg.go.dev/`+module, `href="go:`+module)
}
