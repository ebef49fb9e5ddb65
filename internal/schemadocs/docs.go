// Package schemadocs reads schemas and the documentation of their definitions. Package schema says
// what its words mean.
package schemadocs

import (
	"fmt"
	"strings"
)

// Docs is the documentation of all revisions. It does not change and is safe for concurrent use.
type Docs struct {
	rows map[row]text
}

// row is the place in the documentation of one text.
type row struct {
	revision string // "" for all
	member   Member // of the definition "*": the default of all fields of that name
}

type text struct {
	line int
	text string
}

// everywhere is the section whose rows apply to all definitions without a row of their own.
const everywhere = "*"

// Definition returns the text for the definition called name in revision rev, or "". A section for
// that revision takes precedence over the one for all revisions. If rev is "", only the latter is
// used. The same rule holds for the rows of [Docs.Field] and [Docs.Value].
func (d *Docs) Definition(rev, name string) string {
	return d.find(rev, Member{Definition: name})
}

// Field returns the text for the field at path in a definition, or "". If the definition has no row
// for the field, Field returns the row of section * for the field's name, the last segment of path.
func (d *Docs) Field(rev, def, path string) string {
	return d.find(rev, Member{Definition: def, Path: path})
}

// Value returns the text for a value of an enum or const at path in a definition, or "". If the
// definition itself is the enum, path is "". Value searches the same sections as [Docs.Field].
func (d *Docs) Value(rev, def, path, value string) string {
	return d.find(rev, Member{Definition: def, Path: path, Value: value, IsValue: true})
}

// Undocumented returns the members of revision rev that need a text and have none. Definitions and
// fields need a text; for values it is optional.
func (d *Docs) Undocumented(rev string, members []Member) []Member {
	var missing []Member
	for _, m := range members {
		if !m.IsValue && d.find(rev, m) == "" {
			missing = append(missing, m)
		}
	}
	return missing
}

func (d *Docs) find(rev string, m Member) string {
	return d.rows[d.serving(rev, m)].text
}

// serving returns the row for m in revision rev, or the zero row.
func (d *Docs) serving(rev string, m Member) row {
	for _, r := range candidates(rev, m) {
		if _, ok := d.rows[r]; ok {
			return r
		}
	}
	return row{}
}

// candidates lists the possible rows for m in revision rev in order of precedence.
func candidates(rev string, m Member) []row {
	rows := []row{{rev, m}, {"", m}}
	if m.Path == "" {
		return rows
	}
	// Names can contain dots, as in _meta.io.modelcontextprotocol/related-task. The start of the
	// last segment is found by trying the longest one first.
	m.Definition = everywhere
	for {
		rows = append(rows, row{rev, m}, row{"", m})
		var more bool
		if _, m.Path, more = strings.Cut(m.Path, "."); !more {
			return rows
		}
	}
}

// ParseDocs reads documentation in the format of docs.md, a plain kind of Markdown:
//
//	# Task
//	A unit of work that the receiver runs. The text may wrap; a blank line ends it.
//
//	- ttl: Describes the field ttl in a sentence without a subject, such as "Names the tool."
//	  Further lines are indented by two spaces.
//	- ttl (2024-11-05): Describes the field in that revision.
//	- status=working: Describes the value working of the field status.
//
//	# TaskStatus
//	A definition that is an enum has rows for its own values.
//
//	- =working: Describes the value working.
//
//	# Task (ext-tasks)
//	The text for the definition in that revision alone.
//
//	# *
//	- ttl: Describes fields of that name that have no row in their section.
//
// Lines before the first heading are an introduction for editors of the file. Errors are
// of type [*Error], with the line.
func ParseDocs(src []byte) (*Docs, error) {
	p := docsParser{docs: &Docs{rows: map[row]text{}}}
	for line := range strings.Lines(string(src)) {
		p.line++
		if err := p.read(strings.TrimRight(line, " \t\r\n")); err != nil {
			return nil, err
		}
	}
	if err := p.finish(); err != nil {
		return nil, err
	}
	return p.docs, nil
}

// docsParser reads a line at a time. The current text belongs to at and is stored when the next
// begins.
type docsParser struct {
	docs    *Docs
	line    int    // the line being read, from 1
	section row    // the definition whose section it is; zero before the first heading
	at      row    // the subject of the text
	start   int    // the line that at stands on
	text    string // the text so far
	closed  bool   // a blank line has ended the text
}

// errorf returns an error about the line being read.
func (p *docsParser) errorf(format string, args ...any) error {
	return &Error{Line: p.line, Err: fmt.Errorf(format, args...)}
}

func (p *docsParser) read(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		if err := p.finish(); err != nil {
			return err
		}
		return p.heading(line)
	case p.section == row{}:
		return nil
	case line == "":
		p.closed = p.closed || p.text != ""
		return nil
	case strings.HasPrefix(line, "- "):
		if err := p.finish(); err != nil {
			return err
		}
		return p.bullet(line[len("- "):])
	}
	inRow := p.at != p.section
	indented := strings.HasPrefix(line, "  ")
	switch {
	case p.closed:
		return p.errorf("a blank line has ended the text: join the two, or start a row with a dash")
	case inRow && !indented:
		return p.errorf("a row's further lines are indented by two spaces")
	case !inRow && indented:
		return p.errorf("the text of a definition is not indented")
	}
	p.text = strings.TrimSpace(p.text + " " + strings.TrimSpace(line))
	return nil
}

func (p *docsParser) heading(line string) error {
	name, ok := strings.CutPrefix(line, "# ")
	if !ok {
		return p.errorf("a heading is a number sign, a space and the name of a definition, not %q", line)
	}
	name, revision, err := p.cutRevision(name)
	if err != nil {
		return err
	}
	if name == "" || strings.ContainsAny(name, " \t") {
		return p.errorf("%q is not the name of a definition", name)
	}
	p.section = row{revision, Member{Definition: name}}
	p.begin(p.section)
	return nil
}

func (p *docsParser) bullet(line string) error {
	key, rest, ok := strings.Cut(line+" ", ": ")
	if !ok {
		return p.errorf("a row is a dash, the path of a field, a colon and a text")
	}
	key, revision, err := p.cutRevision(key)
	if err != nil {
		return err
	}
	if revision != "" && p.section.revision != "" {
		return p.errorf("the section is for %s alone: a row in it names no revision", p.section.revision)
	}
	at := p.section
	if revision != "" {
		at.revision = revision
	}
	at.member.Path, at.member.Value, at.member.IsValue = strings.Cut(key, "=")
	if key == "" || strings.ContainsAny(at.member.Path, " \t") {
		return p.errorf("%q is not the path of a field", at.member.Path)
	}
	p.begin(at)
	p.text = strings.TrimSpace(rest)
	return nil
}

// cutRevision splits "key (revision)".
func (p *docsParser) cutRevision(s string) (key, revision string, err error) {
	key, revision, ok := strings.Cut(s, " (")
	if !ok {
		return s, "", nil
	}
	revision, ok = strings.CutSuffix(revision, ")")
	if !ok || revision == "" || strings.ContainsAny(revision, " ()") {
		return "", "", p.errorf("%q does not end with a revision in parentheses", s)
	}
	return key, revision, nil
}

func (p *docsParser) begin(at row) { p.at, p.start, p.text, p.closed = at, p.line, "", false }

// finish files the text that has been read. Only the head of a section may lack one: it
// may be there for its rows alone.
func (p *docsParser) finish() error {
	if (p.at == row{}) {
		return nil
	}
	if p.text == "" {
		if p.at != p.section {
			return &Error{Line: p.start, Err: fmt.Errorf("no text for %s", p.at.member)}
		}
		return nil
	}
	if earlier, dup := p.docs.rows[p.at]; dup {
		return &Error{Line: p.start, Err: fmt.Errorf("%s has a text already, on line %d", p.at.member, earlier.line)}
	}
	p.docs.rows[p.at] = text{p.start, p.text}
	return nil
}
