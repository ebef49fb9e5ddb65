// Package instance makes random JSON values from a schema: valid ones, which cover all
// choices that the schema leaves, and mutants of them, most of which are not valid. The
// tests of the codec, of the generated types and of validation use them.
//
// The same document, seed and order of calls give the same values.
package instance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Maker makes values. It is not safe for concurrent use.
type Maker struct {
	doc   *load.Document
	rng   *rand.Rand
	turn  map[*load.Schema]int // the next variant or enum value of a schema
	names []string             // the names of all members in the document
	low   map[*load.Schema]int // the minimum depth of a value of the schema

	style style // the style of the current value
}

// style selects the optional members of a value.
type style int

const (
	some style = iota
	full
	bare
)

// deep is the depth at which values become as small as possible.
const deep = 6

// New returns a maker of values for the definitions of doc.
func New(doc *load.Document, seed uint64) *Maker {
	m := &Maker{
		doc: doc, rng: rand.New(rand.NewPCG(seed, 0)),
		turn: map[*load.Schema]int{}, low: map[*load.Schema]int{},
	}
	names := map[string]bool{}
	for _, s := range doc.Defs {
		walk(s, func(s *load.Schema) {
			for _, p := range s.Properties {
				names[p.Name] = true
			}
		})
	}
	m.names = slices.Sorted(maps.Keys(names))
	return m
}

// walk calls f for s and all schemas inside of it, without following refs.
func walk(s *load.Schema, f func(*load.Schema)) {
	if s == nil {
		return
	}
	f(s)
	for _, in := range s.Below() {
		walk(in, f)
	}
}

// Value returns a valid value of the definition called name. It fails if it finds none.
// For a schema that admits a value, this happens only if an allOf, a not or an
// overlapping oneOf excludes most combinations. Value ignores not, and assumes that the
// variants of a oneOf exclude each other.
func (m *Maker) Value(name string) (*Value, error) {
	s := m.doc.Defs[name]
	if s == nil {
		return nil, fmt.Errorf("instance: no definition %q in %s", name, m.doc.File)
	}
	m.style = style(m.rng.IntN(4)) // the style some is twice as likely
	for range 100 {
		if v := m.value(0, s); v != nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("instance: found no value for %q in %s", name, m.doc.File)
}

// value returns a value that all of schemas admit, or nil if its choices exclude each
// other.
func (m *Maker) value(depth int, schemas ...*load.Schema) *Value {
	var flat []*load.Schema
	for _, s := range schemas {
		var ok bool
		if flat, ok = m.settle(depth, flat, s); !ok {
			return nil
		}
	}
	v := m.plain(depth, flat)
	if v != nil {
		v.schemas = flat
	}
	return v
}

// settle picks a variant of each union in s and appends the resulting schemas to flat.
func (m *Maker) settle(depth int, flat []*load.Schema, s *load.Schema) ([]*load.Schema, bool) {
	if impossible(s) {
		return nil, false
	}
	flat = append(flat, s)
	parts := slices.Clone(s.AllOf)
	if s.Ref != "" {
		parts = append(parts, m.doc.Defs[s.Ref])
	}
	for _, union := range [...][]*load.Schema{s.AnyOf, s.OneOf} {
		if len(union) > 0 {
			parts = append(parts, m.variant(depth, s, union))
		}
	}
	ok := true
	for _, part := range parts {
		if flat, ok = m.settle(depth, flat, part); !ok {
			return nil, false
		}
	}
	return flat, true
}

// impossible reports whether s obviously admits no value.
func impossible(s *load.Schema) bool {
	return s.False || s.Not != nil && unlimited(s.Not)
}

// unlimited reports whether s obviously admits every value.
func unlimited(s *load.Schema) bool {
	return s == nil || !s.False && s.Ref == "" && s.Types == nil && s.Const == nil && s.Enum == nil && s.Properties == nil &&
		s.Required == nil && s.Additional == nil && s.PropertyNames == nil && s.Items == nil &&
		s.MinItems == nil && s.MaxItems == nil && s.Minimum == nil && s.Maximum == nil &&
		s.ExclusiveMinimum == nil && s.ExclusiveMaximum == nil && s.MinLength == nil && s.MaxLength == nil &&
		s.AnyOf == nil && s.OneOf == nil && s.AllOf == nil && s.Not == nil
}

func (m *Maker) variant(depth int, s *load.Schema, union []*load.Schema) *load.Schema {
	if depth >= deep {
		return slices.MinFunc(union, func(a, b *load.Schema) int { return cmp.Compare(m.least(a), m.least(b)) })
	}
	return union[m.next(s, len(union))]
}

// next returns a number below n: usually the next one in turn, sometimes a random one.
func (m *Maker) next(s *load.Schema, n int) int {
	if m.rng.IntN(3) == 0 {
		return m.rng.IntN(n)
	}
	m.turn[s]++
	return m.turn[s] % n
}

// least returns the minimum depth of a value of s.
func (m *Maker) least(s *load.Schema) int {
	if d, ok := m.low[s]; ok {
		return d
	}
	m.low[s] = 1000 // a large depth while s is being computed, so that cycles are not taken
	d := 0
	if s.Ref != "" {
		d = m.least(m.doc.Defs[s.Ref])
	}
	for _, name := range s.Required {
		if p := s.Property(name); p != nil {
			d = max(d, 1+m.least(p))
		}
	}
	if s.MinItems != nil && *s.MinItems > 0 && s.Items != nil {
		d = max(d, 1+m.least(s.Items))
	}
	for _, part := range s.AllOf {
		d = max(d, m.least(part))
	}
	for _, union := range [...][]*load.Schema{s.AnyOf, s.OneOf} {
		best := 1000
		for _, v := range union {
			best = min(best, m.least(v))
		}
		if len(union) > 0 {
			d = max(d, best)
		}
	}
	m.low[s] = d
	return d
}

// plain returns a value for schemas without refs, unions and allOf.
func (m *Maker) plain(depth int, schemas []*load.Schema) *Value {
	for _, s := range schemas {
		if s.Const != nil {
			return m.constant(schemas, s.Const)
		}
	}
	for _, s := range schemas {
		if s.Enum != nil {
			return m.constant(schemas, s.Enum[m.next(s, len(s.Enum))])
		}
	}
	types := []string{"null", "boolean", "integer", "number", "string", "array", "object"}
	restricted := false
	for _, s := range schemas {
		if s.Types != nil {
			restricted = true
			types = slices.DeleteFunc(types, func(t string) bool {
				return !slices.Contains(s.Types, t) && !(t == "integer" && slices.Contains(s.Types, "number"))
			})
		}
	}
	if len(types) == 0 {
		return nil
	}
	if !restricted && m.rng.IntN(3) > 0 {
		types = types[:5] // any type is valid: mostly scalars
	}
	switch types[m.rng.IntN(len(types))] {
	case "null":
		return &Value{kind: null, text: "null"}
	case "boolean":
		return &Value{kind: boolean, text: []string{"true", "false"}[m.rng.IntN(2)]}
	case "integer":
		return m.number(schemas, integers)
	case "number":
		return m.number(schemas, slices.Concat(integers, fractions))
	case "string":
		return m.string(schemas)
	case "array":
		return m.array(depth, schemas)
	}
	return m.object(depth, schemas)
}

// constant returns the value of text if const, enum and type of all schemas admit it.
func (m *Maker) constant(schemas []*load.Schema, text json.RawMessage) *Value {
	v := parse(text)
	for _, s := range schemas {
		switch {
		case s.Const != nil && !parse(s.Const).equal(v):
			return nil
		case s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e json.RawMessage) bool { return parse(e).equal(v) }):
			return nil
		case s.Types != nil && !slices.ContainsFunc(s.Types, v.is):
			return nil
		}
	}
	if v.kind == str && m.rng.IntN(20) == 0 {
		v.text = quoteRandomly(m.rng, unquote(v.text))
	}
	return v
}

// is reports whether v has the type that a type keyword names.
func (v *Value) is(name string) bool {
	if name == "integer" {
		return v.kind == number && v.rat().IsInt()
	}
	return string(v.kind) == name
}

func (v *Value) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(v.text)
	if !ok {
		panic("not a number: " + v.text)
	}
	return r
}

// equal reports whether two values are equal. It compares arrays and objects by their text.
func (v *Value) equal(w *Value) bool {
	switch {
	case v.kind != w.kind:
		return false
	case v.kind == str:
		return unquote(v.text) == unquote(w.text)
	case v.kind == number:
		return v.rat().Cmp(w.rat()) == 0
	}
	return string(v.JSON()) == string(w.JSON())
}

// Numbers that decoders have read incorrectly.
var (
	integers = []string{
		"0", "-0", "1", "5", "5.0", "5e0", "6e4", "60000.0", "50E-1", "1e+2", "-1", "-7.000", "100", "65536", "1700000000000",
		"2147483648", "9007199254740991", "9007199254740993", "-9007199254740993", "9223372036854775807",
		"9223372036854775808", "-9223372036854775809", "18446744073709551616", "1e19", "123456789012345678901234567890", "1e300",
	}
	fractions = []string{
		"0.5", "1.5", "-1.5", "0.1", "0.30000000000000004", "3.141592653589793238462643383279", "1e-7", "2.5e-10", "0.50",
		"1.7976931348623157e308", "5e-324", "12345678.90123456789", "-0.0001", "1E-2",
	}
)

// number returns one of texts, or a random number, within the bounds of schemas.
func (m *Maker) number(schemas []*load.Schema, texts []string) *Value {
	var fit []string
	for _, text := range texts {
		if inBounds(schemas, text) {
			fit = append(fit, text)
		}
	}
	if m.rng.IntN(3) == 0 {
		if text := fmt.Sprint(m.rng.IntN(1000)); inBounds(schemas, text) {
			fit = []string{text}
		}
	}
	for _, s := range schemas { // the bounds themselves, if integers
		for _, b := range [...]*float64{s.Minimum, s.Maximum} {
			if b != nil {
				if text := big.NewFloat(*b).Text('f', -1); !strings.Contains(text, ".") && inBounds(schemas, text) {
					fit = append(fit, text)
				}
			}
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return &Value{kind: number, text: fit[m.rng.IntN(len(fit))]}
}

func inBounds(schemas []*load.Schema, text string) bool {
	if !slices.ContainsFunc(schemas, bounded) {
		return true // the usual case; parsing numbers is slow
	}
	n := (&Value{kind: number, text: text}).rat()
	beyond := func(bound *float64, bad ...int) bool {
		return bound != nil && slices.Contains(bad, n.Cmp(new(big.Rat).SetFloat64(*bound)))
	}
	for _, s := range schemas {
		if beyond(s.Minimum, -1) || beyond(s.Maximum, 1) || beyond(s.ExclusiveMinimum, -1, 0) || beyond(s.ExclusiveMaximum, 1, 0) {
			return false
		}
	}
	return true
}

func bounded(s *load.Schema) bool {
	return s.Minimum != nil || s.Maximum != nil || s.ExclusiveMinimum != nil || s.ExclusiveMaximum != nil
}

// Strings, as JSON text, that codecs have read or written incorrectly.
var strs = []string{
	`""`, `"a"`, `"hello world"`, `"\u0041\n\t\"\\\/\b\f\r"`, `"héllo wörld"`, `"日本語"`, `"😀"`, `"\ud83d\ude00"`, `"\u2028\u2029"`, `"` + "\u2028" + `"`,
	`"<script>&amp;</script>"`, `"\u0000\u001f\u007f"`, `"null"`, `"5"`, `"~/a~1b/0"`, `"aGVsbG8="`, `"file:///etc/hosts"`, `"2025-11-25T10:30:00Z"`,
	`"é"`, `"e\u0301"`, `"\uFFFD"`, `"` + strings.Repeat("long ", 60) + `"`,
}

func (m *Maker) string(schemas []*load.Schema) *Value {
	least, most := 0, -1
	for _, s := range schemas {
		if s.MinLength != nil {
			least = max(least, *s.MinLength)
		}
		if s.MaxLength != nil && (most < 0 || *s.MaxLength < most) {
			most = *s.MaxLength
		}
	}
	text := strs[m.rng.IntN(len(strs))]
	if least == 0 && most < 0 {
		return &Value{kind: str, text: text}
	}
	s := []rune(unquote(text))
	for len(s) < least {
		s = append(s, 'ß')
	}
	if most >= 0 && len(s) > most {
		s = s[:most]
	}
	return &Value{kind: str, text: quoteRandomly(m.rng, string(s))}
}

func (m *Maker) array(depth int, schemas []*load.Schema) *Value {
	least, most := 0, 1000
	var items []*load.Schema
	for _, s := range schemas {
		if s.MinItems != nil {
			least = max(least, *s.MinItems)
		}
		if s.MaxItems != nil {
			most = min(most, *s.MaxItems)
		}
		if s.Items != nil {
			items = append(items, s.Items)
		}
	}
	count := least
	switch {
	case depth >= deep:
	case m.rng.IntN(40) == 0 && depth < 3:
		count += 12
	default:
		count += m.rng.IntN(4)
	}
	v := &Value{kind: array}
	for range min(count, most) {
		item := m.value(depth+1, items...)
		if item == nil && len(v.items) < least {
			return nil
		}
		if item != nil {
			v.items = append(v.items, item)
		}
	}
	return v
}

func (m *Maker) object(depth int, schemas []*load.Schema) *Value {
	v := &Value{kind: object}
	required := map[string]bool{}
	names := map[string]bool{}
	for _, s := range schemas {
		for _, name := range s.Required {
			required[name], names[name] = true, true
		}
		for _, p := range s.Properties {
			names[p.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !required[name] && !m.wants(depth) {
			continue
		}
		if !m.add(depth, v, schemas, name) && required[name] {
			return nil
		}
	}
	for i := range m.extras(depth, len(names) == 0) {
		name := unquote(strs[m.rng.IntN(len(strs))])
		switch m.rng.IntN(3) {
		case 0:
			name = "x-" + name
		case 1:
			name = m.names[m.rng.IntN(len(m.names))] // a name of another object
		}
		if i >= 3 { // a unique name, or there would be fewer members
			name = fmt.Sprintf("%s %d", name, i)
		}
		if !names[name] && !v.has(name) {
			m.add(depth, v, schemas, name)
		}
	}
	m.rng.Shuffle(len(v.members), func(i, j int) { v.members[i], v.members[j] = v.members[j], v.members[i] })
	return v
}

// wants decides whether a value has an optional member.
func (m *Maker) wants(depth int) bool {
	switch {
	case depth >= deep || m.style == bare:
		return false
	case m.style == full && depth < 4:
		return true
	}
	return m.rng.IntN(2) == 0
}

// extras decides how many members a value has that the schema does not list. Objects
// whose schema lists no members have more.
func (m *Maker) extras(depth int, open bool) int {
	switch {
	case depth >= deep || m.style == bare && m.rng.IntN(4) > 0:
		return 0
	case m.rng.IntN(60) == 0 && depth < 3:
		return 24
	case open:
		return m.rng.IntN(4)
	}
	return max(0, m.rng.IntN(4)-1)
}

// add adds a member with a valid value to the object v, if it finds a value.
func (m *Maker) add(depth int, v *Value, schemas []*load.Schema, name string) bool {
	var of []*load.Schema
	for _, s := range schemas {
		if s.PropertyNames != nil && !m.goodName(s.PropertyNames, name) {
			return false
		}
		if p := s.Property(name); p != nil {
			of = append(of, p)
		} else if s.Additional != nil {
			of = append(of, s.Additional)
		}
	}
	value := m.value(depth+1, of...)
	if value == nil {
		return false
	}
	text := quote(name)
	if m.rng.IntN(50) == 0 {
		text = quoteRandomly(m.rng, name)
	}
	v.members = append(v.members, member{name, text, value})
	return true
}

// goodName reports whether s admits name. It checks simple schemas only.
func (m *Maker) goodName(s *load.Schema, name string) bool {
	n := utf8.RuneCountInString(name)
	switch {
	case s.Ref != "":
		return m.goodName(m.doc.Defs[s.Ref], name)
	case s.Types != nil && !slices.Contains(s.Types, "string"),
		s.Enum != nil && !slices.ContainsFunc(s.Enum, func(e json.RawMessage) bool { return parse(e).equal(from(name)) }),
		s.Const != nil && !parse(s.Const).equal(from(name)),
		s.MinLength != nil && n < *s.MinLength, s.MaxLength != nil && n > *s.MaxLength:
		return false
	}
	return true
}
