// Package frontmatter parses the YAML at the beginning of a SKILL.md.
//
// The peer that verifies a skill parses the same text with another parser, and compares the
// results. A value that two parsers may understand in two ways is therefore worse than an error.
// The package accepts the constructs of YAML 1.2 that people write by hand, resolves plain scalars
// by the core schema (YAML 1.2, section 10.3), and rejects all others: anchors, aliases, tags,
// explicit keys, directives, keys that are not strings, duplicate keys, infinities, numbers that
// overflow a float64, tabs as indentation, and plain scalars on several lines in flow collections.
//
// The parser works on lines. A line loses its indentation first; the entry "- a: 1" of a sequence
// is parsed as if "a: 1" were a line with the indentation of its "a". It is linear in the length of
// the text for a given depth, and the depth is limited.
package frontmatter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/wire"
)

// maxDepth limits how deeply collections nest.
const maxDepth = 32

// maxKey is the length of the longest key in bytes (YAML 1.2, section 7.4.2).
const maxKey = 1024

// Parse returns the front matter of a file as a JSON object, with the members in the order of the
// file, and the text after it. A byte order mark before it is ignored.
func Parse(file []byte) (object json.RawMessage, body []byte, err error) {
	text := bytes.TrimPrefix(file, []byte("\ufeff"))
	first, rest, ok := bytes.Cut(text, []byte("\n"))
	if !ok || string(bytes.TrimSuffix(first, []byte("\r"))) != "---" {
		return nil, nil, errors.New("frontmatter: the first line is not ---")
	}
	p := &parser{w: wire.NewWriter(nil)}
	for n := 2; ; n++ {
		next, after, more := bytes.Cut(rest, []byte("\n"))
		row := string(bytes.TrimSuffix(next, []byte("\r")))
		if strings.TrimRight(row, " \t") == "---" {
			body = after
			break
		}
		if !more {
			return nil, nil, errors.New("frontmatter: no line --- at its end")
		}
		if err := checkCharacters(row); err != nil {
			return nil, nil, fmt.Errorf("frontmatter: line %d: %w", n, err)
		}
		if row == "..." || strings.HasPrefix(row, "... ") {
			return nil, nil, fmt.Errorf("frontmatter: line %d: the document ends before ---", n)
		}
		text := strings.TrimLeft(row, " ")
		p.lines = append(p.lines, line{indent: len(row) - len(text), text: text})
		rest = after
	}
	if err := p.document(); err != nil {
		return nil, nil, fmt.Errorf("frontmatter: line %d: %w", min(p.i, len(p.lines)-1)+2, err)
	}
	return p.w.Bytes(), body, nil
}

// checkCharacters rejects characters that are not printable (YAML 1.2, section 5.1). It also
// rejects carriage returns inside a line, because only some parsers take them for line breaks.
func checkCharacters(row string) error {
	if !utf8.ValidString(row) {
		return errors.New("not UTF-8")
	}
	for _, c := range row {
		if c < ' ' && c != '\t' || c >= 0x7f && c < 0xa0 && c != 0x85 || c == 0xfeff || c == 0xfffe || c == 0xffff {
			return fmt.Errorf("character %U is not allowed", c)
		}
	}
	return nil
}

// line is a line of the text without its indentation.
type line struct {
	indent int
	text   string
}

// blank reports whether the line has no text.
func (l line) blank() bool { return strings.Trim(l.text, " \t") == "" }

// dash reports whether the line begins with the entry of a sequence.
func (l line) dash() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

// parser parses the lines from i on, and writes their values to w.
type parser struct {
	lines []line
	i     int
	w     *wire.Writer
	depth int
}

func (p *parser) document() error {
	if more, err := p.skip(); err != nil {
		return err
	} else if !more {
		return errors.New("no members")
	}
	l := p.lines[p.i]
	if l.dash() {
		return errors.New("want a mapping")
	}
	if err := p.block(-1); err != nil {
		return err
	}
	if more, err := p.skip(); err != nil || more {
		return orError(err, "text after the end of the mapping")
	}
	if text := p.w.Bytes(); len(text) == 0 || text[0] != '{' {
		return errors.New("want a mapping")
	}
	return nil
}

// orError returns err, or an error with a text if it is nil.
func orError(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// skip skips blank lines and comments, and reports whether there is another line.
func (p *parser) skip() (more bool, err error) {
	for ; p.i < len(p.lines); p.i++ {
		l := p.lines[p.i]
		switch {
		case strings.HasPrefix(l.text, "\t"):
			return false, errors.New("a tab at the beginning of a line")
		case !l.blank() && l.text[0] != '#':
			return true, nil
		}
	}
	return false, nil
}

// enter counts a collection. The caller calls leave after it.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxDepth {
		return fmt.Errorf("more than %d collections in each other", maxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// node parses the value on the lines that are indented by more than parent. Without such lines, the
// value is null.
func (p *parser) node(parent int) error {
	more, err := p.skip()
	if err != nil {
		return err
	}
	if !more || p.lines[p.i].indent <= parent {
		p.w.Null()
		return nil
	}
	return p.block(parent)
}

// block parses the value that begins with the current line, in a collection that is indented by
// parent.
func (p *parser) block(parent int) error {
	l := p.lines[p.i]
	if l.dash() {
		return p.sequence(l.indent)
	}
	_, _, ok, err := splitKey(l.text)
	switch {
	case err != nil:
		return err
	case ok:
		return p.mapping(l.indent)
	}
	return p.inline(l.text, parent)
}

// sequence parses the entries at an indentation. It ends before another line there, which belongs
// to a mapping of the same indentation.
func (p *parser) sequence(indent int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	p.w.BeginArray()
	for {
		more, err := p.skip()
		if err != nil {
			return err
		}
		if !more || p.lines[p.i].indent < indent || p.lines[p.i].indent == indent && !p.lines[p.i].dash() {
			p.w.EndArray()
			return nil
		}
		l := p.lines[p.i]
		if l.indent > indent {
			return errors.New("wrong indentation")
		}
		p.w.Elem()
		rest := strings.TrimLeft(l.text[1:], " ")
		switch {
		case strings.HasPrefix(rest, "\t"):
			return errors.New("a tab after -")
		case rest == "" || rest[0] == '#':
			p.i++
			err = p.node(indent)
		default:
			p.lines[p.i] = line{indent + len(l.text) - len(rest), rest}
			err = p.block(indent)
		}
		if err != nil {
			return err
		}
	}
}

// mapping parses the members at an indentation.
func (p *parser) mapping(indent int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	seen := map[string]bool{}
	p.w.Begin()
	for {
		more, err := p.skip()
		if err != nil {
			return err
		}
		if !more || p.lines[p.i].indent < indent {
			p.w.End()
			return nil
		}
		l := p.lines[p.i]
		if l.indent > indent {
			return errors.New("wrong indentation")
		}
		key, rest, ok, err := splitKey(l.text)
		if err != nil || !ok || l.dash() {
			return orError(err, "want a key and a colon")
		}
		if seen[key] {
			return fmt.Errorf("duplicate key %q", key)
		}
		seen[key] = true
		p.w.MapKey(key)
		if rest != "" && rest[0] != '#' {
			if err := p.inline(rest, indent); err != nil {
				return err
			}
			continue
		}
		p.i++
		if more, err = p.skip(); err != nil {
			return err
		}
		if more && p.lines[p.i].indent == indent && p.lines[p.i].dash() {
			err = p.sequence(indent)
		} else {
			err = p.node(indent)
		}
		if err != nil {
			return err
		}
	}
}

// splitKey returns the key at the beginning of a line, and the text after the colon. ok is false if
// the line has no key.
func splitKey(text string) (key, rest string, ok bool, err error) {
	end := 0 // of the key
	switch text[0] {
	case '[', '{', '&', '*', '!', '|', '>', '%', '@', '`':
		return "", "", false, nil // inline parses or rejects such a value
	case '"', '\'':
		if end = closingQuote(text); end < 0 {
			return "", "", false, nil
		}
		rest = strings.TrimLeft(text[end:], " \t")
		if rest == "" || !isColon(rest, 0) {
			return "", "", false, nil
		}
		c := cursor{p: &parser{lines: []line{{text: text}}}, s: text}
		if key, err = c.quoted(); err != nil {
			return "", "", false, err
		}
		rest = rest[1:]
	case '?':
		if len(text) == 1 || text[1] == ' ' || text[1] == '\t' {
			return "", "", false, errors.New("explicit keys are not supported")
		}
		fallthrough
	default:
		for end = 0; end < len(text) && !isColon(text, end); end++ {
			if isComment(text, end) {
				return "", "", false, nil
			}
		}
		if end == len(text) {
			return "", "", false, nil
		}
		key, rest = strings.TrimRight(text[:end], " \t"), text[end+1:]
		if key == "" {
			return "", "", false, errors.New("empty key")
		}
		if err := checkPlain(text); err != nil {
			return "", "", false, err
		}
		if _, kind := resolve(key); kind != kindString {
			return "", "", false, fmt.Errorf("key %s is not a string: quote it", key)
		}
	}
	if end > maxKey {
		return "", "", false, fmt.Errorf("a key of more than %d bytes", maxKey)
	}
	return key, strings.TrimLeft(rest, " \t"), true, nil
}

// closingQuote returns the index after the quote that ends the scalar at the beginning of a text.
// It returns -1 if there is none.
func closingQuote(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\':
			i++
		case text[0] == '\'' && text[i] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
		case text[i] == text[0]:
			return i + 1
		}
	}
	return -1
}

// isColon reports whether a text has a colon at i that ends a key.
func isColon(text string, i int) bool {
	return text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\t')
}

// isComment reports whether a comment begins at i, which is not the beginning of the line.
func isComment(text string, i int) bool {
	return text[i] == '#' && i > 0 && (text[i-1] == ' ' || text[i-1] == '\t')
}

// inline parses a value that begins with text, the rest of the current line. Its other lines are
// indented by more than parent.
func (p *parser) inline(text string, parent int) error {
	switch text[0] {
	case '|', '>':
		return p.blockScalar(text, parent)
	case '"', '\'', '[', '{':
		c := cursor{p: p, s: text, parent: parent}
		if err := c.value(); err != nil {
			return err
		}
		rest := strings.TrimLeft(c.s, " \t")
		if rest != "" && (rest[0] != '#' || len(rest) == len(c.s)) {
			return fmt.Errorf("text after the value: %q", rest)
		}
		p.i++
		return nil
	}
	return p.plain(text, parent)
}

// checkPlain rejects a text that cannot begin a plain scalar (YAML 1.2, section 7.3.3).
func checkPlain(text string) error {
	switch text[0] {
	case '&', '*':
		return errors.New("anchors and aliases are not supported")
	case '!':
		return errors.New("tags are not supported")
	case '-', '?', ':':
		if len(text) > 1 && !strings.ContainsAny(text[1:2], " \t") {
			return nil
		}
	case ',', '[', ']', '{', '}', '#', '|', '>', '\'', '"', '%', '@', '`':
	default:
		return nil
	}
	return fmt.Errorf("a value cannot begin with %q: quote it", text[:1])
}

// plain parses a plain scalar.
func (p *parser) plain(text string, parent int) error {
	if err := checkPlain(text); err != nil {
		return err
	}
	var out strings.Builder
	for {
		row, ended, err := plainRow(text)
		if err != nil {
			return err
		}
		out.WriteString(row)
		p.i++
		next := p.i
		for next < len(p.lines) && p.lines[next].text == "" {
			next++
		}
		if ended || next == len(p.lines) || p.lines[next].indent <= parent || p.lines[next].text[0] == '#' {
			break
		}
		if text = p.lines[next].text; text[0] == '\t' {
			return errors.New("a tab at the beginning of a line")
		}
		fold(&out, next-p.i)
		p.i = next
	}
	return p.scalar(out.String())
}

// plainRow returns the part of a plain scalar on a line. ended reports that a comment follows,
// which ends the scalar.
func plainRow(text string) (row string, ended bool, err error) {
	for i := range len(text) {
		switch {
		case isColon(text, i):
			return "", false, errors.New("a colon in a value that is not quoted")
		case isComment(text, i):
			return strings.TrimRight(text[:i], " \t"), true, nil
		}
	}
	return strings.TrimRight(text, " \t"), false, nil
}

// fold writes the value of a line break in a scalar that n blank lines follow (YAML 1.2, section
// 6.5).
func fold(out *strings.Builder, n int) {
	if n == 0 {
		out.WriteByte(' ')
	}
	for range n {
		out.WriteByte('\n')
	}
}

var blockHeader = regexp.MustCompile(`^[|>](?:([+-]?)([1-9]?)|([1-9])([+-]))(?:[ \t]+(?:#.*)?)?$`)

// blockScalar parses a literal or folded scalar (YAML 1.2, section 8.1).
func (p *parser) blockScalar(header string, parent int) error {
	parts := blockHeader.FindStringSubmatch(header)
	if parts == nil {
		return fmt.Errorf("invalid header of a block scalar: %q", header)
	}
	chomp, digit := parts[1]+parts[4], parts[2]+parts[3]
	p.i++
	indent := 0
	if digit != "" {
		indent = max(parent, 0) + int(digit[0]-'0')
	} else {
		blanks := 0
		for _, l := range p.lines[p.i:] {
			if l.text != "" {
				indent = l.indent
				break
			}
			blanks = max(blanks, l.indent)
		}
		if indent <= parent {
			indent = max(parent+1, blanks) // there is no content
		} else if blanks > indent {
			return errors.New("a blank line with more spaces than the text after it")
		}
	}
	var rows []string
	for ; p.i < len(p.lines); p.i++ {
		l := p.lines[p.i]
		if l.text != "" && l.indent < indent {
			break
		}
		rows = append(rows, strings.Repeat(" ", max(0, l.indent-indent))+l.text)
	}
	kept := len(rows)
	for kept > 0 && rows[kept-1] == "" {
		kept--
	}
	if chomp == "+" && kept < len(rows) && p.i == len(p.lines) {
		// Parsers that cut the front matter in different ways disagree about the last line break.
		return errors.New("a scalar with + whose blank lines end the front matter")
	}
	var out strings.Builder
	if header[0] == '|' {
		out.WriteString(strings.Join(rows[:kept], "\n"))
	} else {
		foldRows(&out, rows[:kept])
	}
	if kept > 0 && chomp != "-" {
		out.WriteByte('\n')
	}
	if chomp == "+" {
		out.WriteString(strings.Repeat("\n", len(rows)-kept))
	}
	p.w.Text(out.String())
	return nil
}

// foldRows writes the lines of a folded scalar. Breaks around lines with more indentation stay.
func foldRows(out *strings.Builder, rows []string) {
	deeper := func(row string) bool { return row[0] == ' ' || row[0] == '\t' }
	last := "" // the last line that is not empty
	empty := 0 // lines after it
	for _, row := range rows {
		switch {
		case row == "":
			empty++
			continue
		case last == "":
			out.WriteString(strings.Repeat("\n", empty))
		case deeper(last) || deeper(row):
			out.WriteString(strings.Repeat("\n", empty+1))
		default:
			fold(out, empty)
		}
		out.WriteString(row)
		last, empty = row, 0
	}
}

// cursor parses flow collections and quoted scalars: s is the rest of the current line of p.
type cursor struct {
	p      *parser
	s      string
	parent int // the indentation of the collection around the value
}

// next goes to the next line with text, and returns the number of blank lines before it.
func (c *cursor) next() (blanks int, err error) {
	for c.p.i++; c.p.i < len(c.p.lines); c.p.i++ {
		l := c.p.lines[c.p.i]
		if l.blank() {
			blanks++
			continue
		}
		if l.indent <= c.parent {
			return 0, errors.New("a line of a value is not indented")
		}
		c.s = strings.TrimLeft(l.text, "\t ")
		return blanks, nil
	}
	return 0, errors.New("a value has no end")
}

// space skips white space, line breaks and comments.
func (c *cursor) space() error {
	start := false // of a line
	for {
		rest := strings.TrimLeft(c.s, " \t")
		spaced := start || len(rest) < len(c.s)
		c.s = rest
		if rest != "" && (rest[0] != '#' || !spaced) {
			return nil
		}
		if _, err := c.next(); err != nil {
			return err
		}
		start = true
	}
}

// value parses a value in a flow collection, or the collection itself.
func (c *cursor) value() error {
	switch c.s[0] {
	case '"', '\'':
		text, err := c.quoted()
		if err == nil {
			c.p.w.Text(text)
		}
		return err
	case '[':
		return c.sequence()
	case '{':
		return c.mapping()
	}
	text, err := c.plain()
	if err != nil {
		return err
	}
	return c.p.scalar(text)
}

func (c *cursor) sequence() error {
	if err := c.p.enter(); err != nil {
		return err
	}
	defer c.p.leave()
	c.p.w.BeginArray()
	c.s = c.s[1:]
	for {
		if err := c.space(); err != nil {
			return err
		}
		if c.s[0] == ']' {
			break
		}
		c.p.w.Elem()
		if err := c.value(); err != nil {
			return err
		}
		if more, err := c.comma(']'); err != nil {
			return err
		} else if !more {
			break
		}
	}
	c.s = c.s[1:]
	c.p.w.EndArray()
	return nil
}

// comma skips the comma after an element. more is false before the end of the collection.
func (c *cursor) comma(end byte) (more bool, err error) {
	if err := c.space(); err != nil {
		return false, err
	}
	switch c.s[0] {
	case ',':
		c.s = c.s[1:]
		return true, nil
	case end:
		return false, nil
	}
	return false, fmt.Errorf("want a comma or %q before %q", end, c.s)
}

func (c *cursor) mapping() error {
	if err := c.p.enter(); err != nil {
		return err
	}
	defer c.p.leave()
	seen := map[string]bool{}
	c.p.w.Begin()
	c.s = c.s[1:]
	for {
		if err := c.space(); err != nil {
			return err
		}
		if c.s[0] == '}' {
			break
		}
		if err := c.member(seen); err != nil {
			return err
		}
		if more, err := c.comma('}'); err != nil {
			return err
		} else if !more {
			break
		}
	}
	c.s = c.s[1:]
	c.p.w.End()
	return nil
}

// member parses a key, and its value if there is one.
func (c *cursor) member(seen map[string]bool) (err error) {
	var key string
	if c.s[0] == '"' || c.s[0] == '\'' {
		key, err = c.quoted()
	} else if key, err = c.plain(); err == nil {
		if _, kind := resolve(key); kind != kindString {
			err = fmt.Errorf("key %s is not a string: quote it", key)
		}
	}
	switch {
	case err != nil:
		return err
	case len(key) > maxKey:
		return fmt.Errorf("a key of more than %d bytes", maxKey)
	case seen[key]:
		return fmt.Errorf("duplicate key %q", key)
	}
	seen[key] = true
	c.p.w.MapKey(key)
	if err := c.space(); err != nil {
		return err
	}
	if c.s[0] != ':' {
		c.p.w.Null()
		return nil
	}
	c.s = c.s[1:]
	if err := c.space(); err != nil {
		return err
	}
	if c.s[0] == ',' || c.s[0] == '}' {
		c.p.w.Null()
		return nil
	}
	return c.value()
}

// plain parses a plain scalar in a flow collection. It ends with its line.
func (c *cursor) plain() (string, error) {
	const indicators = ",[]{}"
	if err := checkPlain(c.s); err != nil {
		return "", err
	}
	if strings.ContainsAny(c.s[:1], "-?:") && strings.ContainsAny(c.s[1:2], indicators) {
		return "", fmt.Errorf("a value cannot begin with %q: quote it", c.s[:1])
	}
	end := 0
	for ; end < len(c.s); end++ {
		if strings.IndexByte(indicators, c.s[end]) >= 0 || isColon(c.s, end) || isComment(c.s, end) ||
			c.s[end] == ':' && strings.IndexByte(indicators, c.s[end+1]) >= 0 {
			break
		}
	}
	text := strings.TrimRight(c.s[:end], " \t")
	c.s = c.s[len(text):]
	return text, nil
}

// quoted parses a quoted scalar, which may continue on further lines.
func (c *cursor) quoted() (string, error) {
	quote := c.s[0]
	c.s = c.s[1:]
	var out []byte
	fixed := 0 // bytes of out that are not white space at the end of a line
	for {
		switch {
		case c.s == "":
			out = out[:max(fixed, len(bytes.TrimRight(out, " \t")))]
			blanks, err := c.next()
			if err != nil {
				return "", err
			}
			if blanks == 0 {
				out = append(out, ' ')
			}
			out = append(out, strings.Repeat("\n", blanks)...)
			fixed = len(out)
		case c.s[0] == quote && (quote == '"' || !strings.HasPrefix(c.s, "''")):
			c.s = c.s[1:]
			return string(out), nil
		case c.s[0] == quote:
			out, c.s = append(out, '\''), c.s[2:]
		case quote == '"' && c.s == `\`: // an escaped line break
			blanks, err := c.next()
			if err != nil {
				return "", err
			}
			out = append(out, strings.Repeat("\n", blanks)...)
			fixed = len(out)
		case quote == '"' && c.s[0] == '\\':
			text, n, err := unescape(c.s)
			if err != nil {
				return "", err
			}
			out, c.s = append(out, text...), c.s[n:]
			fixed = len(out)
		default:
			end := 1
			for end < len(c.s) && c.s[end] != quote && c.s[end] != '\\' {
				end++
			}
			out, c.s = append(out, c.s[:end]...), c.s[end:]
		}
	}
}

var escapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", '\t': "\t", 'n': "\n", 'v': "\v", 'f': "\f", 'r': "\r", 'e': "\x1b",
	' ': " ", '"': `"`, '/': "/", '\\': `\`, 'N': "\u0085", '_': "\u00a0", 'L': "\u2028", 'P': "\u2029",
}

// unescape returns the character of the escape sequence at the beginning of a text, and the length
// of the sequence (YAML 1.2, section 5.7).
func unescape(s string) (text string, n int, err error) {
	if text, ok := escapes[s[1]]; ok {
		return text, 2, nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if digits == 0 || len(s) < 2+digits {
		return "", 0, fmt.Errorf("invalid escape sequence %.10q", s)
	}
	code, err := strconv.ParseUint(s[2:2+digits], 16, 31)
	if err != nil || !utf8.ValidRune(rune(code)) {
		// Half of a surrogate pair is a character for some parsers, and an error for others.
		return "", 0, fmt.Errorf("invalid escape sequence %q", s[:2+digits])
	}
	return string(rune(code)), 2 + digits, nil
}

// kind is the type of a plain scalar.
type kind uint8

const (
	kindString kind = iota
	kindNull
	kindTrue
	kindFalse
	kindNumber
	kindInvalid // an infinity, or not a number
)

var (
	intSyntax   = regexp.MustCompile(`^([-+]?)([0-9]+)$`)
	basedSyntax = regexp.MustCompile(`^0(?:o[0-7]+|x[0-9a-fA-F]+)$`)
	floatSyntax = regexp.MustCompile(`^([-+]?)([0-9]*)(?:\.([0-9]*))?([eE][-+]?[0-9]+)?$`)
	noNumber    = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
)

// resolve returns the kind of a plain scalar by the core schema. For a number, it also returns the
// JSON text.
func resolve(text string) (number string, _ kind) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return "", kindNull
	case "true", "True", "TRUE":
		return "", kindTrue
	case "false", "False", "FALSE":
		return "", kindFalse
	}
	if c := text[0]; c != '.' && c != '-' && c != '+' && (c < '0' || c > '9') {
		return "", kindString
	}
	sign := func(s string) string { return strings.TrimPrefix(s, "+") }
	whole := func(s string) string {
		if s = strings.TrimLeft(s, "0"); s == "" {
			return "0"
		}
		return s
	}
	if parts := intSyntax.FindStringSubmatch(text); parts != nil {
		return finite(sign(parts[1]) + whole(parts[2]))
	}
	if basedSyntax.MatchString(text) {
		// A double has at most 1024 bits. Longer texts would take quadratic time.
		if digits := strings.TrimLeft(text[2:], "0"); len(digits) <= 1024 {
			if v, ok := new(big.Int).SetString(text, 0); ok {
				return finite(v.String())
			}
		}
		return "", kindInvalid
	}
	if noNumber.MatchString(text) {
		return "", kindInvalid
	}
	if parts := floatSyntax.FindStringSubmatch(text); parts != nil && parts[2]+parts[3] != "" {
		number = sign(parts[1]) + whole(parts[2])
		if parts[3] != "" {
			number += "." + parts[3]
		}
		return finite(number + parts[4])
	}
	return "", kindString
}

// finite returns kindInvalid for a number that overflows a float64, and kindNumber for others.
func finite(number string) (string, kind) {
	if v, _ := strconv.ParseFloat(number, 64); math.IsInf(v, 0) {
		return "", kindInvalid
	}
	return number, kindNumber
}

// scalar writes a plain scalar.
func (p *parser) scalar(text string) error {
	switch number, k := resolve(text); k {
	case kindNull:
		p.w.Null()
	case kindTrue, kindFalse:
		p.w.Bool(k == kindTrue)
	case kindNumber:
		p.w.Number(number)
	case kindInvalid:
		return fmt.Errorf("JSON has no number %s", text)
	default:
		p.w.Text(text)
	}
	return nil
}
