package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/alecthomas/chroma/v2"
	chromahtml "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// shelves are the folders of docs in the order of the navigation, and what has the other pages.
var shelves = []struct{ folder, name string }{
	{"docs/tutorial/", "Tutorial"}, {"docs/howto/", "How to"}, {"docs/reference/", "Reference"}, {"docs/explain/", "Explanations"}, {"", "Project"},
}

// shelfOf returns the position of the shelf of a page.
func shelfOf(source string) int {
	folder, _ := path.Split(source)
	return slices.IndexFunc(shelves, func(s struct{ folder, name string }) bool { return s.folder == folder })
}

// loadMarkdown adds the pages of docs and of the root.
func (s *site) loadMarkdown() error {
	var sources []string
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch path.Ext(name) {
		case ".md":
			sources = append(sources, name)
		case ".svg":
			s.figures[strings.TrimPrefix(name, "docs/")], err = os.ReadFile(file)
			s.targets["repo:"+name] = strings.TrimPrefix(name, "docs/")
		}
		return err
	})
	if err != nil {
		return err
	}
	project, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return err
	}
	for _, file := range project {
		sources = append(sources, filepath.Base(file))
	}
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	if err != nil {
		return err
	}
	// Pages follow each other as in the index of docs.
	place := func(source string) int {
		return bytes.Index(index, []byte("]("+strings.TrimPrefix(source, "docs/")+")"))
	}
	slices.SortStableFunc(sources, func(a, b string) int {
		return cmp.Or(cmp.Compare(shelfOf(a), shelfOf(b)), cmp.Compare(place(a), place(b)))
	})
	for _, source := range sources {
		if err := s.addMarkdown(source); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	return nil
}

func (s *site) addMarkdown(source string) error {
	src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(source)))
	if err != nil {
		return err
	}
	p := &page{source: source}
	name, ok := strings.CutPrefix(strings.TrimSuffix(source, ".md")+".html", "docs/")
	switch {
	case source == "docs/README.md":
		name = "index.html"
		if src, err = withOpening(src); err != nil {
			return err
		}
	case !ok:
		name = "project/" + strings.ToLower(name)
	}
	p.name = name
	if i := shelfOf(source); i >= 0 {
		p.shelf = shelves[i].name
	}
	if p.sections, err = render(source, src); err != nil {
		return err
	}
	p.title = p.sections[0].title
	if source == "README.md" {
		p.title = "README"
	}
	return s.add(p, "repo:"+source)
}

// withOpening puts what the README says first, and its table of features, before the index of docs.
func withOpening(index []byte) ([]byte, error) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		return nil, err
	}
	opening, _, ok := bytes.Cut(readme, []byte("\n\nTo see this on your machine"))
	_, features, ok2 := bytes.Cut(readme, []byte("\n## What it supports\n"))
	features, _, ok3 := bytes.Cut(features, []byte("\n## "))
	_, shelves, ok4 := bytes.Cut(index, []byte("\n\n"))
	if !ok || !ok2 || !ok3 || !ok4 {
		return nil, fmt.Errorf("README.md has no opening, or no table of features")
	}
	up := regexp.MustCompile(`\]\(([a-zA-Z])`)                                // links of README.md are relative to the root
	opening = regexp.MustCompile(`(?m)^\[!\[.*\n\n`).ReplaceAll(opening, nil) // pictures of other sites
	own := func(text []byte) []byte {
		return up.ReplaceAllFunc(text, func(m []byte) []byte {
			if m[2] == 'h' {
				return m
			}
			return append([]byte("](../"), m[2:]...)
		})
	}
	return slices.Concat(own(opening), []byte("\n\n"), shelves, []byte("\n## What it supports\n"), own(features)), nil
}

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.GFM),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 1))),
)

// render returns the sections of a page, one for each heading.
func render(source string, src []byte) ([]section, error) {
	ids := &headingIDs{seen: make(map[string]int)}
	doc := markdown.Parser().Parse(text.NewReader(src), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			n.Destination = []byte(target(source, string(n.Destination)))
		case *ast.Image:
			n.Destination = []byte(target(source, string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	var sections []section
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		if outside(n) {
			continue
		}
		var b bytes.Buffer
		if err := markdown.Renderer().Render(&b, src, n); err != nil {
			return nil, err
		}
		out := strings.ReplaceAll(strings.ReplaceAll(b.String(), "<table>", `<div class="scroll"><table>`), "</table>", "</table></div>")
		if h, ok := n.(*ast.Heading); ok {
			id, _ := n.AttributeString("id")
			sections = append(sections, section{id: string(id.([]byte)), title: plain(n, src), level: h.Level})
		}
		if len(sections) == 0 {
			if strings.TrimSpace(out) == "" {
				continue // a comment
			}
			return nil, fmt.Errorf("the page does not begin with a heading")
		}
		last := &sections[len(sections)-1]
		last.html += out
		last.text += " " + plain(n, src)
	}
	return sections, nil
}

// target returns the reference for a link in a Markdown file.
func target(source, link string) string {
	if name, ok := strings.CutPrefix(link, "https://pkg.go.dev/"+module); ok {
		return "go:" + module + name
	}
	if strings.Contains(link, ":") {
		return link
	}
	file, heading, _ := strings.Cut(link, "#")
	if file == "" {
		file = source
	} else {
		file = path.Join(path.Dir(source), file)
	}
	if heading != "" {
		file += "#" + heading
	}
	return "repo:" + file
}

// outside reports whether a paragraph has only pictures of other sites, such as badges.
func outside(n ast.Node) bool {
	found := false
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if image, ok := n.(*ast.Image); ok && strings.Contains(string(image.Destination), "://") {
			found = true
		}
		return ast.WalkContinue, nil
	})
	return found
}

// plain returns the text of a node without markup.
func plain(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(src))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(src))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// headingIDs gives headings the anchors that GitHub gives them.
type headingIDs struct{ seen map[string]int }

func (h *headingIDs) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, string(value))
	n := h.seen[id]
	h.seen[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (h *headingIDs) Put(value []byte) { h.seen[string(value)]++ }

// blocks renders code with classes for its colours, and no comments.
type blocks struct{}

func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var code strings.Builder
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			code.Write(line.Value(src))
		}
		out, err := highlight(string(n.(*ast.FencedCodeBlock).Language(src)), code.String())
		if err != nil {
			return ast.WalkStop, err
		}
		_, err = w.WriteString(out)
		return ast.WalkContinue, err
	})
	comment := func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		return ast.WalkSkipChildren, nil
	}
	r.Register(ast.KindRawHTML, comment)
	r.Register(ast.KindHTMLBlock, comment)
}

var colours = chromahtml.New(chromahtml.WithClasses(true), chromahtml.PreventSurroundingPre(true))

// highlight returns code as HTML.
func highlight(language, code string) (string, error) {
	lexer := lexers.Get(language)
	if lexer == nil || language == "text" {
		return "<pre><code>" + html.EscapeString(code) + "</code></pre>\n", nil
	}
	tokens, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`<pre class="chroma"><code>`)
	if err := colours.Format(&b, styles.Get("github"), tokens); err != nil {
		return "", err
	}
	b.WriteString("</code></pre>\n")
	return b.String(), nil
}

// highlighting returns the style sheet of the colours of code, light and dark.
func highlighting() ([]byte, error) {
	var b bytes.Buffer
	for _, scheme := range []struct{ name, style string }{{"light", "github"}, {"dark", "github-dark"}} {
		fmt.Fprintf(&b, "@media (prefers-color-scheme: %s) {\n", scheme.name)
		if err := colours.WriteCSS(&b, styles.Get(scheme.style)); err != nil {
			return nil, err
		}
		b.WriteString("}\n")
	}
	return b.Bytes(), nil
}
