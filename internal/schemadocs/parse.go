package schemadocs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// parse reads one JSON value into the types of encoding/json, with numbers as [json.Number] to keep
// their text. Unlike encoding/json, it rejects duplicate names and invalid UTF-8. Errors are of
// type *Error.
func parse(src []byte) (any, error) {
	if i := invalidUTF8(src); i >= 0 {
		return nil, errorAt(src, int64(i), "", errors.New("invalid UTF-8"))
	}
	p := newParser(src)
	v, err := p.value()
	// The parser reads tokens one by one and knows the current place. Unmarshal reports whether the
	// whole text is JSON, and the byte where it is not.
	var whole json.RawMessage
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(src, &whole)); ok {
		offset := syntax.Offset - 1 // the offending byte is counted in
		if len(bytes.TrimSpace(src)) == 0 || strings.HasPrefix(syntax.Error(), "unexpected end") {
			offset = int64(len(src))
		}
		return nil, errorAt(src, offset, p.pointer(), fmt.Errorf("invalid JSON: %w", syntax))
	}
	if err != nil {
		return nil, errorAt(src, p.start, p.pointer(), err)
	}
	return v, nil
}

// locate returns the offset of the value at pointer in src, 0 if there is none.
func locate(src []byte, pointer string) int64 {
	p := newParser(src)
	p.target = &pointer
	if _, err := p.value(); errors.Is(err, errFound) {
		return p.start
	}
	return 0
}

var errFound = errors.New("found")

// parser builds values from the tokens of a decoder and tracks the current path.
type parser struct {
	src    []byte
	dec    *json.Decoder
	path   []string // the names and indexes that lead to the value being read, escaped for a pointer
	start  int64    // the offset of the last token read, past white space and punctuation
	target *string  // if set, reading stops at this pointer with errFound
}

func newParser(src []byte) *parser {
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	return &parser{src: src, dec: dec}
}

func (p *parser) pointer() string {
	if len(p.path) == 0 {
		return ""
	}
	return "/" + strings.Join(p.path, "/")
}

func (p *parser) token() (json.Token, error) {
	at := p.dec.InputOffset()
	for at < int64(len(p.src)) && strings.IndexByte(" \t\r\n,:", p.src[at]) >= 0 {
		at++
	}
	p.start = at
	return p.dec.Token()
}

// enter adds a step to the path, and leave removes it. After an error the path stays at the fault.
func (p *parser) enter(step string) { p.path = append(p.path, jsonedit.EscapeToken(step)) }
func (p *parser) leave()            { p.path = p.path[:len(p.path)-1] }

func (p *parser) value() (any, error) {
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	if p.target != nil && *p.target == p.pointer() {
		return nil, errFound
	}
	switch tok {
	case json.Delim('{'):
		return p.object()
	case json.Delim('['):
		return p.list()
	}
	return tok, nil
}

func (p *parser) object() (any, error) {
	members := map[string]any{}
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return nil, err
		}
		name, ok := tok.(string)
		if !ok {
			return nil, errors.New("an object's member has no name")
		}
		p.enter(name)
		if _, dup := members[name]; dup {
			return nil, errors.New("duplicate name")
		}
		if members[name], err = p.value(); err != nil {
			return nil, err
		}
		p.leave()
	}
	_, err := p.token()
	return members, err
}

func (p *parser) list() (any, error) {
	items := []any{}
	for p.dec.More() {
		p.enter(strconv.Itoa(len(items)))
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		items = append(items, v)
		p.leave()
	}
	_, err := p.token()
	return items, err
}

// invalidUTF8 returns the offset of the first byte of src that is not UTF-8, or -1.
func invalidUTF8(src []byte) int {
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}
