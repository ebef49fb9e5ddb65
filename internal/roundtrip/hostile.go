package roundtrip

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/doubling"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/internal/slowtest"
)

// levels is how deep values are, except for those that are about the limit of depth. A decoder that
// reads each level twice would not end.
const levels = 64

// Numbers of values of each definition, and of what each is made to, with the members of its objects
// in their order and in reverse.
const (
	values  = 2
	growths = 6
)

// Hostile checks that a generated package decodes deep and long values of each definition in time
// that is linear in their length, and that it refuses those beyond the limit of depth with the place.
// It makes them of random values: it repeats a part of a value inside itself, whether or not the
// schema allows that, and the elements of lists, and adds members that no type knows. Checked are the
// definitions whose large values were checked for another revision. Hostile adds its own. It checks
// large values only in slow tests.
func Hostile(t *testing.T, p Package, checked map[string]bool) {
	s := New(t, p.Revision, p.Schema)
	random := rand.New(rand.NewPCG(Seed(t), 1))
	cases, deep, most := 0, 0, growths
	if testing.Short() {
		most = 2
	}
	for c := range s.Cases(t, values) {
		if c.Mutant || p.New(c.Definition) == nil {
			continue
		}
		root := parse(json.NewDecoder(bytes.NewReader(c.Text)))
		var all []growth
		for _, reversed := range []bool{false, true} {
			found := growthsOf(root, reversed)
			random.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
			for i, g := range found {
				if i < most || g.kind == long && !reversed {
					all = append(all, g)
				}
			}
		}
		for _, g := range all {
			cases++
			switch err := p.tryGrowth(c.Definition, g); {
			case errors.Is(err, jsonfault.Depth):
				deep++
			case err != nil:
				s.fail(t, c, fmt.Errorf("%s %s: %w", g.kind, g.name, err))
			}
			kind := c.Definition + " " + g.kind
			if g.kind == long {
				kind += " " + g.at
			}
			if g.checkable() && !checked[kind] && !doubling.Race && slowtest.Enabled() {
				checked[kind] = true
				t.Run(kind, func(t *testing.T) {
					doubling.CheckQuick(t, func(n int) func() {
						text := []byte(g.text(n))
						return func() { p.use(c.Definition, text, codec.MaxDepth(1<<30)) }
					})
				})
			}
		}
	}
	t.Logf("%d values, of which %d are refused for their depth", cases, deep)
	if deep < cases/4 {
		t.Error("most values are refused for other reasons")
	}
}

// use decodes a value, and encodes and validates what it has decoded. It returns the errors of
// decoding and encoding.
func (p Package) use(definition string, text []byte, options ...codec.Option) (decoded, encoded error) {
	v := p.New(definition)
	if err := codec.Unmarshal(text, v, options...); err != nil {
		return err, nil
	}
	_, err := codec.Marshal(v)
	p.ValidateValue(v)
	return nil, err
}

// tryGrowth decodes a value of some levels, and if it is a deep one, also one beyond the limit. It
// returns jsonfault.Depth if that is refused with the right place.
func (p Package) tryGrowth(definition string, g growth) error {
	if _, err := p.use(definition, []byte(g.text(levels))); err != nil || !g.deep {
		return err
	}
	text := []byte(g.text(wire.DefaultDepth + 1))
	_, plain := codec.UnmarshalFunc(text, func(r *wire.Reader) struct{} { r.Skip(); return struct{}{} })
	want, ok := errors.AsType[*codec.Error](plain)
	if !ok || !errors.Is(want, jsonfault.Depth) {
		return fmt.Errorf("skipping the value: got %v, want ErrDepth", plain)
	}
	err, _ := p.use(definition, text)
	got, ok := errors.AsType[*codec.Error](err)
	if !ok {
		return fmt.Errorf("beyond the limit of depth: got %v, want %v", err, want)
	}
	if errors.Is(got, jsonfault.Depth) && (got.Offset != want.Offset || got.Pointer != want.Pointer) {
		return fmt.Errorf("beyond the limit of depth: got offset %d and pointer %.200q, want %d and %.200q", got.Offset, got.Pointer, want.Offset, want.Pointer)
	}
	if errors.Is(got, jsonfault.Depth) {
		return jsonfault.Depth
	}
	return nil
}

// growth makes hostile values.
type growth struct {
	kind, name string
	at         string // where the value is changed
	deep       bool
	text       func(n int) string
}

// checkable reports whether large values are to be checked: they are not too long, and the text is
// not skipped as a whole.
func (g growth) checkable() bool {
	return (g.kind == nested || !g.deep) && len(g.text(2))-len(g.text(1)) <= 400
}

// The kinds of values with a part inside itself, and with a long list.
const (
	nested = "nested"
	long   = "long"
)

// element is an element of a JSON value. Of an object, the elements are the values of its members.
type element struct {
	name     string // of the member
	text     string // of a value that is neither an object nor a list, or the opening bracket
	elements []*element
}

// parse reads a JSON value, which must be valid.
func parse(d *json.Decoder) *element {
	d.UseNumber()
	token, _ := d.Token()
	bracket, ok := token.(json.Delim)
	if !ok {
		text, _ := json.Marshal(token)
		return &element{text: string(text)}
	}
	e := &element{text: bracket.String()}
	for d.More() {
		name := ""
		if bracket == '{' {
			token, _ := d.Token()
			name = token.(string)
		}
		inner := parse(d)
		inner.name = name
		e.elements = append(e.elements, inner)
	}
	d.Token()
	return e
}

// span is the place of an element in a text.
type span struct {
	*element
	start, end int
	pointer    string // with * for the index in a list
	around     []int  // the indices of the elements around it, the outermost first
}

// within reports whether the place is that of an element of the one at an index.
func (s span) within(at int) bool { return len(s.around) > 0 && s.around[len(s.around)-1] == at }

// layout writes an element, with the members of objects in their order or in reverse, and returns
// the places of all elements.
func (e *element) layout(b *strings.Builder, reversed bool, pointer string, around []int, spans []span) []span {
	at := len(spans)
	spans = append(spans, span{element: e, start: b.Len(), pointer: pointer, around: around})
	b.WriteString(e.text)
	inner := e.elements
	if e.text == "{" && reversed {
		inner = slices.Clone(inner)
		slices.Reverse(inner)
	}
	around = append(slices.Clip(around), at)
	for i, x := range inner {
		if i > 0 {
			b.WriteByte(',')
		}
		place := "/*"
		if e.text == "{" {
			place = "/" + x.name
			name, _ := json.Marshal(x.name)
			b.Write(append(name, ':'))
		}
		spans = x.layout(b, reversed, pointer+place, around, spans)
	}
	switch e.text {
	case "{":
		b.WriteByte('}')
	case "[":
		b.WriteByte(']')
	}
	spans[at].end = b.Len()
	return spans
}

// growthsOf returns what a value can be made to.
func growthsOf(root *element, reversed bool) (all []growth) {
	var b strings.Builder
	spans := root.layout(&b, reversed, "", nil, nil)
	text := b.String()
	order := ""
	if reversed {
		order = ", members in reverse"
	}
	add := func(kind, at, name string, deep bool, f func(n int) string) {
		all = append(all, growth{kind, name + order, at, deep, f})
	}
	for at, q := range spans {
		before, after := text[:q.start], text[q.end:]
		for _, i := range q.around {
			p := spans[i]
			add(nested, q.pointer, p.pointer+" in "+q.pointer, true, func(n int) string {
				return text[:p.start] + strings.Repeat(text[p.start:q.start], n) + text[q.start:q.end] + strings.Repeat(text[q.end:p.end], n) + text[p.end:]
			})
		}
		add("arrays", q.pointer, "at "+q.pointer, true, func(n int) string {
			return before + strings.Repeat("[", n+1) + strings.Repeat("]", n+1) + after
		})
		add("objects", q.pointer, "at "+q.pointer, true, func(n int) string {
			return before + strings.Repeat(`{"a":`, n+1) + "1" + strings.Repeat("}", n+1) + after
		})
		comma := ","
		if len(q.elements) == 0 {
			comma = ""
		}
		switch q.element.text {
		case "[":
			one := ""
			for _, x := range spans {
				if x.within(at) && (one == "" || x.end-x.start < len(one)) {
					one = text[x.start:x.end]
				}
			}
			if one != "" {
				add(long, q.pointer, "list at "+q.pointer, false, func(n int) string {
					return before + "[" + strings.Repeat(one+",", n) + one + "]" + after
				})
			}
		case "{":
			add("unknown", q.pointer, "members of "+q.pointer, false, func(n int) string {
				var b strings.Builder
				for i := range n {
					fmt.Fprintf(&b, `,"x%d":%d`, i, i)
				}
				return before + text[q.start:q.end-1] + b.String()[1-len(comma):] + "}" + after
			})
			add("deep", q.pointer, "unknown member of "+q.pointer, true, func(n int) string {
				return before + text[q.start:q.end-1] + comma + `"x":` + strings.Repeat("[", n+1) + strings.Repeat("]", n+1) + "}" + after
			})
		}
	}
	return all
}
