package main

import (
	"bytes"
	"embed"
	"fmt"
	"html"
	"html/template"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	module     = "github.com/mcpwire/mcpwire"
	repository = "https://" + module
	maxPart    = 200 << 10 // bytes of the body of a page; longer ones are divided
)

// A site is all pages. Sources refer to each other by names that do not depend on how pages are
// divided: "repo:docs/howto/auth.md#try-it" is a heading of a page, "go:IMPORTPATH#Type.Method" the
// documentation of an identifier. The references are resolved when everything is rendered.
type site struct {
	pages   []*page
	figures map[string][]byte // of docs, by name in the site
	targets map[string]string // references to places in the site, such as "howto/auth.html#try-it"
}

// A page is one HTML file.
type page struct {
	name     string // in the site, such as "howto/auth.html"
	title    string
	shelf    string // in the navigation; "" if the page is not there
	source   string // file or folder of the repository
	sections []section
	more     []*page // the other parts of a page that was divided, in each of its parts
}

// A section is a part of a page that stays in one piece.
type section struct {
	id, title string
	level     int    // of the heading: 1 for the page itself
	html      string // with the heading
	text      string // what the search finds
}

// load reads and renders everything.
func load() (*site, error) {
	s := &site{figures: make(map[string][]byte), targets: make(map[string]string)}
	if err := s.loadMarkdown(); err != nil {
		return nil, err
	}
	if err := s.loadPackages(); err != nil {
		return nil, err
	}
	return s, s.resolve()
}

// add adds a page, in parts if it is long. The sections have the targets prefix#id, and the page
// has the target prefix.
func (s *site) add(p *page, prefix string) error {
	parts := []*page{p}
	size := 0
	sections := p.sections
	p.sections = nil
	for _, part := range sections {
		if len(part.html) > maxPart {
			return fmt.Errorf("section %q of %s has %d bytes: divide it", part.title, p.name, len(part.html))
		}
		last := parts[len(parts)-1]
		if size += len(part.html); size > maxPart {
			size = len(part.html)
			last = &page{
				name:   fmt.Sprintf("%s-%d.html", strings.TrimSuffix(p.name, ".html"), len(parts)+1),
				title:  fmt.Sprintf("%s, part %d", p.title, len(parts)+1),
				source: p.source,
			}
			parts = append(parts, last)
		}
		last.sections = append(last.sections, part)
		if part.id != "" {
			s.targets[prefix+"#"+part.id] = last.name + "#" + part.id
		}
	}
	s.targets[prefix] = p.name
	for _, part := range parts {
		if len(parts) > 1 {
			part.more = parts
		}
		// Anchors inside of sections, such as those of methods, are targets, too.
		for i := range part.sections {
			for _, m := range anchor.FindAllStringSubmatch(part.sections[i].html, -1) {
				s.targets[prefix+"#"+m[1]] = part.name + "#" + m[1]
			}
		}
	}
	s.pages = append(s.pages, parts...)
	return nil
}

var (
	anchor    = regexp.MustCompile(` id="([^"]+)"`)
	reference = regexp.MustCompile(`(href|src)="((?:repo|go):[^"]*)"`)
)

// resolve replaces the references in all pages by relative links.
func (s *site) resolve() error {
	for _, p := range s.pages {
		for i := range p.sections {
			var failure error
			text := &p.sections[i].html
			*text = reference.ReplaceAllStringFunc(*text, func(match string) string {
				m := reference.FindStringSubmatch(match)
				target, err := s.find(html.UnescapeString(m[2]), p)
				if err != nil {
					failure = fmt.Errorf("%s: %w", p.source, err)
				}
				return m[1] + `="` + target + `"`
			})
			if failure != nil {
				return failure
			}
		}
	}
	return nil
}

// find returns the link from a page to a reference.
func (s *site) find(ref string, from *page) (string, error) {
	if target, ok := s.targets[ref]; ok {
		return relative(from.name, target), nil
	}
	name, heading, _ := strings.Cut(ref, "#")
	if parent, _, ok := strings.Cut(heading, "."); ok && s.targets[name+"#"+parent] != "" {
		return relative(from.name, s.targets[name+"#"+parent]), nil // a field stands in its type
	}
	if file, ok := strings.CutPrefix(name, "repo:"); ok && s.targets[name] == "" {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			return "", err
		}
		return repository + "/blob/HEAD/" + file, nil
	}
	if s.targets[name] == "" {
		return "https://pkg.go.dev/" + strings.TrimPrefix(ref, "go:"), nil
	}
	return "", fmt.Errorf("%s has no %q", name, heading)
}

// relative returns the path from one page to another.
func relative(from, to string) string {
	target, fragment, _ := strings.Cut(to, "#")
	if target == from && fragment != "" {
		return "#" + fragment
	}
	r, err := filepath.Rel(filepath.FromSlash(path.Dir(from)), filepath.FromSlash(target))
	if err != nil {
		panic(err) // both are relative
	}
	r = filepath.ToSlash(r)
	if fragment != "" {
		r += "#" + fragment
	}
	return r
}

//go:embed static
var static embed.FS

var layout = template.Must(template.ParseFS(static, "static/page.html"))

// files returns all files of the site by name.
func (s *site) files() (map[string][]byte, error) {
	files := maps.Clone(s.figures)
	navigation := s.navigation()
	for _, p := range s.pages {
		var body strings.Builder
		for _, part := range p.sections {
			body.WriteString(part.html)
		}
		var b bytes.Buffer
		if err := layout.ExecuteTemplate(&b, "page.html", map[string]any{
			"Title": p.title, "Name": p.name, "Root": strings.Repeat("../", strings.Count(p.name, "/")),
			"Shelves": navigation, "Parts": p.parts(), "Body": template.HTML(body.String()),
		}); err != nil {
			return nil, err
		}
		files[p.name] = b.Bytes()
	}
	for _, name := range []string{"search.js", "style.css"} {
		text, err := static.ReadFile("static/" + name)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	colours, err := highlighting()
	if err != nil {
		return nil, err
	}
	files["style.css"] = append(files["style.css"], colours...)
	if files["index.js"], err = s.index(); err != nil {
		return nil, err
	}
	return files, s.forModels(files)
}

// A shelf is a part of the navigation.
type shelf struct {
	Name  string
	Pages []entry
}

type entry struct{ Name, Title string }

// navigation returns the pages of each shelf.
func (s *site) navigation() (all []*shelf) {
	for _, s := range shelves {
		all = append(all, &shelf{Name: s.name})
	}
	for _, p := range s.pages {
		i := slices.IndexFunc(all, func(s *shelf) bool { return s.Name == p.shelf })
		if i >= 0 {
			all[i].Pages = append(all[i].Pages, entry{p.name, p.title})
		}
	}
	return all
}

// parts returns the parts of a divided page for its navigation, each with what it begins with.
func (p *page) parts() (all []entry) {
	for _, part := range p.more {
		all = append(all, entry{part.name, part.sections[0].title})
	}
	return all
}
