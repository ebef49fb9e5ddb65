package jsonschema

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Faults lists the faults of a value in the order of the text. Each entry has the place of the bad
// value. For a missing required member that is the place of the object. For a member that is not
// allowed or has a bad name, the pointer is that of the member and the offset that of its name. The
// Err of an entry is a [codec.ErrType] or [jsonfault.Integer] for a value of the wrong kind, and
// otherwise an [*Error]. Text that is not well-formed is a single fault, the one that package codec
// reports.
//
// [errors.As] finds Faults itself, and [errors.Is] and As search all entries. [codec.Code] returns
// the code for an error response to the peer.
type Faults []*codec.Error

// Error puts each fault on a line of its own.
func (f Faults) Error() string {
	var s strings.Builder
	for i, e := range f {
		if i > 0 {
			s.WriteByte('\n')
		}
		s.WriteString(e.Error())
	}
	return s.String()
}

// Unwrap returns the faults.
func (f Faults) Unwrap() []error {
	errs := make([]error, len(f))
	for i, e := range f {
		errs[i] = e
	}
	return errs
}

// Error is a value that breaks one keyword of its schema.
type Error struct {
	Keyword string // as in the schema: "required", "enum", "maxItems" and so on
	Message string // what is wrong, without the place
}

// Error returns e.Message.
func (e *Error) Error() string { return e.Message }

// MaxFaults is the largest number of faults that Check reports for one value. A text of some
// megabytes can have millions, which would take far more memory than the text. If there are more
// faults, [ErrMore] follows those reported. Check reports fewer if their pointers get large.
const MaxFaults = 1000

// ErrMore is the last entry of Faults if the value has more faults than Check reports.
var ErrMore = errors.New("more faults follow")

// maxPointers is the total size of the pointers above which no fault is added.
const maxPointers = 1 << 20

// countOnly counts a fault and returns true in a quiet walk. Otherwise it returns false, and the
// caller must record the fault.
func (c *checker) countOnly() bool {
	if c.quiet > 0 {
		c.count++
		return true
	}
	return false
}

// fault records that the value at i, at the current path, is wrong.
func (c *checker) fault(i int, err error) {
	if len(c.faults) == MaxFaults || c.pointers > maxPointers {
		c.more = true
		return
	}
	p := c.pointer()
	c.pointers += len(p)
	c.faults = append(c.faults, &codec.Error{Offset: int64(i), Pointer: p, Err: err})
}

func (c *checker) keywordFault(i int, keyword, format string, args ...any) {
	c.fault(i, &Error{keyword, fmt.Sprintf(format, args...)})
}

// wrongKind records that the value at i is of none of the kinds.
func (c *checker) wrongKind(kinds Types, i int) {
	if c.countOnly() {
		return
	}
	got := kindOf(c.data[i])
	switch {
	case kinds&every == 0:
		c.keywordFault(i, "not", "no value is allowed here")
	case got == wire.KindNumber && kinds&Integer != 0:
		c.fault(i, jsonfault.Integer)
	default:
		c.fault(i, wire.WrongKind(kinds.String(), got))
	}
}

// notOneOf records that the value at i does not equal any of texts.
func (c *checker) notOneOf(texts []string, i int) {
	if c.countOnly() {
		return
	}
	if len(texts) == 1 {
		c.keywordFault(i, "const", "%s is not %s", c.excerpt(i), texts[0])
		return
	}
	const most = 12
	list := texts[:min(len(texts), most)]
	more := ""
	if len(list) < len(texts) {
		more = fmt.Sprintf(" and %d more", len(texts)-most)
	}
	c.keywordFault(i, "enum", "%s is not one of %s%s", c.excerpt(i), strings.Join(list, ", "), more)
}

// missing records the required members that the object at i does not have.
func (c *checker) missing(props []Prop, i int) {
	for _, p := range props {
		if !p.Required {
			continue
		}
		if _, at := c.member(i, p.Name); at < 0 && !c.countOnly() {
			c.keywordFault(i, "required", "required member %q is missing", p.Name)
		}
	}
}

// excerpt returns the text of the value at i, shortened if it is long. For an array or object it
// returns the kind.
func (c *checker) excerpt(i int) string {
	text := c.data[i:c.skip(i)]
	const most = 60
	switch {
	case text[0] == '{' || text[0] == '[':
		return kindOf(text[0]).String()
	case len(text) <= most:
		return string(text)
	}
	cut := most
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return string(text[:cut]) + "…"
}

// pointer returns the current path as a JSON pointer.
func (c *checker) pointer() string {
	var p []byte
	for d := range c.depth {
		p = append(p, '/')
		step := c.step(d)
		if step < 0 {
			p = strconv.AppendInt(p, int64(^step), 10)
			continue
		}
		name := c.data[step+1 : skipString(c.data, step)-1]
		for i := 0; i < len(name); {
			var r rune
			switch r, i = char(name, i); r {
			case '~':
				p = append(p, "~0"...)
			case '/':
				p = append(p, "~1"...)
			default:
				p = utf8.AppendRune(p, r)
			}
		}
	}
	return string(p)
}

// result returns the faults in order, with lines and columns, or nil.
func (c *checker) result() error {
	if len(c.faults) == 0 {
		return nil
	}
	// Two branches of an allOf may find the same fault.
	slices.SortStableFunc(c.faults, func(a, b *codec.Error) int { return cmp.Compare(a.Offset, b.Offset) })
	kept := c.faults[:0]
	start := 0 // kept[start:] have the offset of the last fault
	for _, e := range c.faults {
		if start < len(kept) && kept[start].Offset != e.Offset {
			start = len(kept)
		}
		if !slices.ContainsFunc(kept[start:], func(k *codec.Error) bool {
			return k.Pointer == e.Pointer && k.Err.Error() == e.Err.Error()
		}) {
			kept = append(kept, e)
		}
	}
	if c.more {
		kept = append(kept, &codec.Error{Offset: kept[len(kept)-1].Offset, Err: ErrMore})
	}
	line, column, at := 1, 1, 0
	for _, e := range kept {
		for ; at < int(e.Offset); at++ {
			column++
			if c.data[at] == '\n' {
				line, column = line+1, 1
			}
		}
		e.Line, e.Column = line, column
	}
	return kept
}

// kindOf returns the kind of the value that starts with b.
func kindOf(b byte) wire.Kind {
	switch b {
	case '{':
		return wire.KindObject
	case '[':
		return wire.KindArray
	case '"':
		return wire.KindString
	case 't', 'f':
		return wire.KindBool
	case 'n':
		return wire.KindNull
	}
	return wire.KindNumber
}

// String returns the kinds in words: "string or null".
func (k Types) String() string {
	var words []string
	for _, n := range [...]struct {
		kind Types
		word string
	}{
		{Object, "object"}, {Array, "array"}, {String, "string"}, {Number, "number"}, {Integer, "integer"},
		{Fraction, "number"}, {Bool, "boolean"}, {Null, "null"},
	} {
		if k&n.kind == n.kind {
			words = append(words, n.word)
			k &^= n.kind
		}
	}
	return strings.Join(words, " or ")
}
