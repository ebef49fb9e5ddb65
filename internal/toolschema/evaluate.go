package toolschema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/pattern"
)

// A value is checked against every subschema that applies to it, once for each path that leads
// there. With references, the number of paths can double at each level of the schema or of the
// value: a short value would take years. Some keywords compare a value with a long list, or match a
// long text against a large pattern. So the evaluation counts its steps: a step is about the work of
// one subschema without members for one value. It ends when they are used up.
const (
	// A check may take baseSteps and stepsPerByte for each byte of the value, but no more than
	// maxSteps.
	baseSteps    = 1_000_000
	stepsPerByte = 8
	maxSteps     = 50_000_000
	// pollSteps is the number of steps between two looks at the context.
	pollSteps = 10_000
	// bytesPerStep is the number of bytes that take one step to copy, hash or count.
	bytesPerStep = 64
	// digitsPerStep is the number of decimal digits of a fraction that take one step to compute.
	digitsPerStep = 16
	// polledText is the length in bytes from which a match of a pattern looks at the context.
	polledText = 64 << 10
)

// errSteps is returned by a check that takes too many steps.
type errSteps int

func (e errSteps) Error() string {
	return fmt.Sprintf("the check of the value takes too many steps (limit: %d)", int(e))
}

// errCycle is returned by a check if a subschema applies itself to the same value.
var errCycle = errors.New("a subschema refers to itself for the same value")

// evaluation is the state of one check.
type evaluation struct {
	ctx   context.Context
	limit int
	left  int // of limit
	poll  int // steps until the next look at ctx

	path    []step      // to the current value
	depth   int         // subschemas around the current one, for the same value
	cycle   int         // the depth that only a cycle exceeds
	scope   []*resource // of the subschemas around the current one, if dynamic
	faults  []fault
	dynamic bool
	quiet   int // above zero, faults are not recorded, and the first one decides
	trial   int // above zero, recorded faults may be dropped
}

// step is the name of a member, or the index of an element.
type step struct {
	name  string
	index int // -1 for a member
}

// fault is a fault at a path. Its text is only formatted if it is reported.
type fault struct {
	path   []step
	format string
	args   []any
}

// stop is the value of a panic that ends an evaluation.
type stop struct{ err error }

// errFull ends an evaluation that has found as many faults as are reported.
var errFull = errors.New("enough faults")

// evaluate checks a value whose JSON text has a length. It returns its faults. The error is
// that of the context, errSteps or errCycle.
func (s *Schema) evaluate(ctx context.Context, v any, length int) (faults []fault, err error) {
	limit := min(baseSteps+stepsPerByte*length, maxSteps)
	e := &evaluation{ctx: ctx, limit: limit, left: limit, poll: pollSteps, cycle: s.size, dynamic: s.dynamic}
	defer func() {
		faults = e.faults
		switch p := recover().(type) {
		case nil:
		case stop:
			if p.err != errFull {
				err = p.err
			}
		default:
			panic(p)
		}
	}()
	e.check(s.root, v, nil)
	return e.faults, nil
}

// charge takes steps.
func (e *evaluation) charge(n int) {
	if e.left -= n; e.left < 0 {
		panic(stop{errSteps(e.limit)})
	}
	if e.poll -= n; e.poll < 0 {
		e.poll = pollSteps
		if err := e.ctx.Err(); err != nil {
			panic(stop{err})
		}
	}
}

// fault records a fault of the current value. It returns false.
func (e *evaluation) fault(format string, args ...any) bool {
	if e.quiet > 0 {
		return false
	}
	if len(e.faults) <= maxFaults {
		e.charge(1 + len(e.path)/8)
		e.faults = append(e.faults, fault{slices.Clone(e.path), format, args})
	} else if e.trial == 0 {
		panic(stop{errFull})
	}
	return false
}

// marks are the members or elements of a value that a subschema has evaluated, for the keywords
// unevaluatedProperties and unevaluatedItems.
type marks struct {
	all   bool
	names map[string]struct{}
	items map[int]struct{}
	first int // the elements before it
}

func (m *marks) member(name string) {
	if m.names == nil {
		m.names = map[string]struct{}{}
	}
	m.names[name] = struct{}{}
}

func (m *marks) element(i int) {
	if m.items == nil {
		m.items = map[int]struct{}{}
	}
	m.items[i] = struct{}{}
}

// merge adds the marks of another subschema. Either may be nil.
func (e *evaluation) merge(m, other *marks) {
	if m == nil || other == nil {
		return
	}
	e.charge(len(other.names) + len(other.items))
	m.all = m.all || other.all
	m.first = max(m.first, other.first)
	for name := range other.names {
		m.member(name)
	}
	for i := range other.items {
		m.element(i)
	}
}

// fresh returns marks for a subschema whose marks count only if it admits the value, or nil if m is
// nil.
func (m *marks) fresh() *marks {
	if m == nil {
		return nil
	}
	return &marks{}
}

// check reports whether a subschema admits the current value. It adds to m, which may be nil, what
// it has evaluated.
func (e *evaluation) check(n *node, v any, m *marks) bool {
	e.charge(1)
	if n.never {
		return e.fault("no value is allowed here")
	}
	if e.depth++; e.depth > e.cycle {
		panic(stop{errCycle})
	}
	if e.dynamic {
		e.scope = append(e.scope, n.resource)
	}
	ok := e.apply(n, v, m)
	if e.dynamic {
		e.scope = e.scope[:len(e.scope)-1]
	}
	e.depth--
	return ok
}

// inside is check for a member or an element of the current value.
func (e *evaluation) inside(n *node, v any, at step) bool {
	depth := e.depth
	e.depth = 0
	e.path = append(e.path, at)
	ok := e.check(n, v, nil)
	e.path = e.path[:len(e.path)-1]
	e.depth = depth
	return ok
}

// admits is check without recorded faults.
func (e *evaluation) admits(n *node, v any, m *marks) bool {
	e.quiet++
	ok := e.check(n, v, m)
	e.quiet--
	return ok
}

func (e *evaluation) apply(n *node, v any, outer *marks) bool {
	k := kindOf(v)
	if n.types != 0 && n.types&k == 0 && (k != isNumber || n.types&isInteger == 0 || !integer(v.(json.Number))) {
		return e.fault("got %s, want %s", k, alternatives(n.names))
	}
	if n.choices != nil {
		if n.chosen&k == 0 {
			return e.refuse(n)
		}
		if _, ok := n.choices[string(e.appendKey(nil, v))]; !ok {
			return e.refuse(n)
		}
	}
	ok := n.format == nil || e.format(n.format, v)
	m := outer
	if n.otherMembers != nil && k == isObject || n.otherItems != nil && k == isArray {
		m = &marks{}
	}
	ok = e.goOn(ok) && e.references(n, v, m) && ok
	ok = e.goOn(ok) && e.content(n, v, m) && ok
	ok = e.goOn(ok) && e.combinations(n, v, m) && ok
	ok = e.goOn(ok) && e.unevaluated(n, v, m) && ok
	if ok && m != outer {
		e.merge(outer, m)
	}
	return ok
}

// goOn reports whether more keywords of a subschema matter if ok is the outcome of the first ones.
func (e *evaluation) goOn(ok bool) bool { return ok || e.quiet == 0 }

// format checks the keyword format, which is an assertion before 2019-09.
func (e *evaluation) format(f *format, v any) bool {
	text, ok := v.(string)
	if !ok {
		return true
	}
	e.charge(1 + len(text)/bytesPerStep*8)
	if err := f.check(text); err != nil {
		return e.fault("%s is not valid %s: %v", quotes{text[:min(len(text), 100)]}, f.name, err)
	}
	return true
}

// references checks the value against the schemas that the subschema refers to.
func (e *evaluation) references(n *node, v any, m *marks) bool {
	ok := true
	for _, ref := range n.refs {
		ok = e.check(ref, v, m) && ok
	}
	if n.dynamic != nil {
		target := n.dynamic
		e.charge(len(e.scope) / 8)
		if i := slices.IndexFunc(e.scope, func(r *resource) bool { return r.anchors[n.anchor] != nil }); i >= 0 {
			target = e.scope[i].anchors[n.anchor]
		}
		ok = e.check(target, v, m) && ok
	}
	if n.recursive != nil {
		target := n.recursive
		e.charge(len(e.scope) / 8)
		if i := slices.IndexFunc(e.scope, func(r *resource) bool { return r.recursive != nil }); i >= 0 {
			target = e.scope[i].recursive
		}
		ok = e.check(target, v, m) && ok
	}
	return ok
}

// content checks the keywords for the kind of the value.
func (e *evaluation) content(n *node, v any, m *marks) bool {
	switch v := v.(type) {
	case map[string]any:
		return e.object(n, v, m)
	case []any:
		return e.array(n, v, m)
	case string:
		return e.text(n, v)
	case json.Number:
		return e.number(n, v)
	}
	return true
}

// refuse records that the value is none of those that enum or const admits.
func (e *evaluation) refuse(n *node) bool {
	if e.quiet > 0 {
		return false
	}
	for _, v := range n.wanted {
		if k := kindOf(v); k == isArray || k == isObject {
			return e.fault("'%s' failed", n.keyword)
		}
	}
	if len(n.wanted) == 1 {
		return e.fault("value must be %s", displays(n.wanted))
	}
	return e.fault("value must be one of %s", displays(n.wanted))
}

// combinations checks the keywords that combine subschemas.
func (e *evaluation) combinations(n *node, v any, m *marks) bool {
	ok := true
	if n.not != nil && e.admits(n.not, v, nil) {
		ok = e.fault("'not' failed")
	}
	for _, sub := range n.allOf {
		if ok = e.check(sub, v, m) && ok; !e.goOn(ok) {
			return false
		}
	}
	if n.anyOf != nil {
		ok = e.anyOf(n.anyOf, v, m) && ok
	}
	if n.oneOf != nil {
		ok = e.oneOf(n.oneOf, v, m) && ok
	}
	if n.condition != nil {
		branch := n.otherwise
		if own := m.fresh(); e.admits(n.condition, v, own) {
			e.merge(m, own)
			branch = n.then
		}
		if branch != nil {
			ok = e.check(branch, v, m) && ok
		}
	}
	return ok
}

// anyOf tries all alternatives if their marks matter, and otherwise those up to the first that
// admits the value.
func (e *evaluation) anyOf(list []*node, v any, m *marks) bool {
	before := len(e.faults)
	e.trial++
	e.fault("'anyOf' failed")
	admitted := false
	for _, sub := range list {
		own := m.fresh()
		if e.check(sub, v, own) {
			e.merge(m, own)
			if admitted = true; m == nil {
				break
			}
		}
	}
	e.trial--
	if admitted {
		e.faults = e.faults[:before]
	}
	return admitted
}

func (e *evaluation) oneOf(list []*node, v any, m *marks) bool {
	before := len(e.faults)
	e.trial++
	e.fault("'oneOf' failed, none matched")
	first := -1
	for i, sub := range list {
		if first >= 0 {
			if e.admits(sub, v, nil) {
				e.trial--
				return e.fault("'oneOf' failed, subschemas %d, %d matched", first, i)
			}
			continue
		}
		if own := m.fresh(); e.check(sub, v, own) {
			e.merge(m, own)
			first = i
			e.faults = e.faults[:before]
		}
	}
	e.trial--
	return first >= 0
}

// unevaluated checks what no other keyword has evaluated.
func (e *evaluation) unevaluated(n *node, v any, m *marks) bool {
	ok := true
	switch v := v.(type) {
	case map[string]any:
		if n.otherMembers == nil || m.all {
			break
		}
		e.charge(len(v))
		for name, member := range v {
			if _, marked := m.names[name]; !marked {
				ok = e.inside(n.otherMembers, member, step{name, -1}) && ok
			}
		}
		m.all = true
	case []any:
		if n.otherItems == nil || m.all {
			break
		}
		for i := m.first; i < len(v); i++ {
			if _, marked := m.items[i]; !marked {
				ok = e.inside(n.otherItems, v[i], step{"", i}) && ok
			}
		}
		m.all = true
	}
	return ok
}

func (e *evaluation) object(n *node, object map[string]any, m *marks) bool {
	ok := true
	if n.minMembers != nil && len(object) < *n.minMembers {
		ok = e.fault("minProperties: got %d, want %d", len(object), *n.minMembers)
	}
	if n.maxMembers != nil && len(object) > *n.maxMembers {
		ok = e.fault("maxProperties: got %d, want %d", len(object), *n.maxMembers)
	}
	if missing := e.missing(object, n.required); missing != nil {
		ok = e.fault("missing %s %s", plural(missing), quotes(missing))
	}
	for _, d := range n.dependent {
		e.charge(1)
		if _, present := object[d.name]; !present {
			continue
		}
		if missing := e.missing(object, d.required); missing != nil {
			ok = e.fault("properties %s required, if %s exists", quotes(missing), quotes{d.name})
		}
		if d.schema != nil {
			ok = e.check(d.schema, object, m) && ok
		}
	}
	if len(n.properties) > 0 || len(n.patterns) > 0 || n.additional != nil {
		ok = e.members(n, object, m) && ok
	}
	if n.memberNames != nil && e.goOn(ok) {
		for name := range object {
			depth := e.depth
			e.depth = 0
			ok = e.check(n.memberNames, name, nil) && ok
			e.depth = depth
		}
	}
	return ok
}

// missing returns the names that the object does not have. In a quiet evaluation, it returns only
// the first one.
func (e *evaluation) missing(object map[string]any, names []string) (missing []string) {
	e.charge(len(names) / 4)
	for _, name := range names {
		if _, ok := object[name]; !ok {
			if missing = append(missing, name); e.quiet > 0 {
				break
			}
		}
	}
	return missing
}

func (e *evaluation) members(n *node, object map[string]any, m *marks) bool {
	ok := true
	var refused []string
	e.charge(len(object) / 4)
	for name, v := range object {
		if !e.goOn(ok) {
			return false
		}
		sub, evaluated := n.properties[name]
		if evaluated {
			ok = e.inside(sub, v, step{name, -1}) && ok
		}
		for _, p := range n.patterns {
			if e.match(p.pattern, name) {
				evaluated = true
				ok = e.inside(p.value, v, step{name, -1}) && ok
			}
		}
		switch {
		case evaluated || n.additional == nil:
		case n.additional.never:
			refused = append(refused, name)
			ok = false
		default:
			evaluated = true
			ok = e.inside(n.additional, v, step{name, -1}) && ok
		}
		if evaluated && m != nil {
			m.member(name)
		}
	}
	if refused != nil {
		slices.Sort(refused)
		e.fault("additional properties %s not allowed", quotes(refused))
	}
	if m != nil && n.additional != nil {
		m.all = true
	}
	return ok
}

func (e *evaluation) array(n *node, list []any, m *marks) bool {
	ok := true
	if n.minItems != nil && len(list) < *n.minItems {
		ok = e.fault("minItems: got %d, want %d", len(list), *n.minItems)
	}
	if n.maxItems != nil && len(list) > *n.maxItems {
		ok = e.fault("maxItems: got %d, want %d", len(list), *n.maxItems)
	}
	if n.unique && len(list) > 1 {
		ok = e.unique(list) && ok
	}
	evaluated := min(len(n.prefix), len(list))
	for i, v := range list[:evaluated] {
		ok = e.inside(n.prefix[i], v, step{"", i}) && ok
	}
	if n.items != nil {
		for i, v := range list[evaluated:] {
			if !e.goOn(ok) {
				return false
			}
			ok = e.inside(n.items, v, step{"", evaluated + i}) && ok
		}
		evaluated = len(list)
	}
	if m != nil {
		m.first = max(m.first, evaluated)
	}
	if n.contains != nil {
		ok = e.containing(n, list, m) && ok
	}
	return ok
}

// containing checks the keywords contains, minContains and maxContains.
func (e *evaluation) containing(n *node, list []any, m *marks) bool {
	var found []int
	e.quiet++
	for i, v := range list {
		if e.inside(n.contains, v, step{"", i}) {
			found = append(found, i)
			if m != nil && n.containsCounts {
				m.element(i)
			}
		}
	}
	e.quiet--
	switch {
	case n.minContains == nil && found == nil:
		return e.fault("no items match contains schema")
	case n.minContains != nil && len(found) < *n.minContains:
		return e.fault("minContains: %d items match, want %d", len(found), *n.minContains)
	case n.maxContains != nil && len(found) > *n.maxContains:
		return e.fault("maxContains: %d items match, want %d", len(found), *n.maxContains)
	}
	return true
}

// unique checks the keyword uniqueItems.
func (e *evaluation) unique(list []any) bool {
	seen := make(map[string]int, len(list))
	var b []byte
	for i, v := range list {
		b = e.appendKey(b[:0], v)
		if j, ok := seen[string(b)]; ok {
			return e.fault("items at %d and %d are equal", j, i)
		}
		seen[string(b)] = i
	}
	return true
}

func (e *evaluation) text(n *node, text string) bool {
	ok := true
	if n.minLength != nil || n.maxLength != nil {
		e.charge(len(text) / bytesPerStep)
		length := utf8.RuneCountInString(text)
		if n.minLength != nil && length < *n.minLength {
			ok = e.fault("minLength: got %d, want %d", length, *n.minLength)
		}
		if n.maxLength != nil && length > *n.maxLength {
			ok = e.fault("maxLength: got %d, want %d", length, *n.maxLength)
		}
	}
	if n.pattern != nil && !e.match(n.pattern, text) {
		ok = e.fault("%s does not match pattern %s", quotes{text}, quotes{n.pattern.String()})
	}
	return ok
}

// match reports whether a pattern matches a text.
func (e *evaluation) match(p *pattern.Pattern, text string) bool {
	if len(text) < polledText {
		e.charge(p.Steps(len(text)))
		return p.MatchString(text)
	}
	return p.MatchReader(&polled{e: e, p: p, text: text})
}

// polled reads a text for a match that looks at the context.
type polled struct {
	e    *evaluation
	p    *pattern.Pattern
	text string
	read int // bytes since the last charge
}

func (r *polled) ReadRune() (char rune, size int, err error) {
	if r.text == "" {
		return 0, 0, io.EOF
	}
	if r.read >= 1<<10 {
		r.e.charge(r.p.Steps(r.read))
		r.read = 0
	}
	char, size = utf8.DecodeRuneInString(r.text)
	r.text = r.text[size:]
	r.read += size
	return char, size, nil
}

func (e *evaluation) number(n *node, number json.Number) bool {
	if n.minimum == nil && n.maximum == nil && n.above == nil && n.below == nil && n.multipleOf == nil {
		return true
	}
	digits, exponent, _ := decimal(number)
	work := 1 + (len(digits)+max(exponent, -exponent))/digitsPerStep
	e.charge(work)
	got, valid := new(big.Rat).SetString(string(number))
	if !valid {
		return e.fault("the number %s is invalid", number)
	}
	ok := true
	if n.minimum != nil && got.Cmp(n.minimum.Rat) < 0 {
		ok = e.fault("minimum: got %s, want %s", number, n.minimum.text)
	}
	if n.maximum != nil && got.Cmp(n.maximum.Rat) > 0 {
		ok = e.fault("maximum: got %s, want %s", number, n.maximum.text)
	}
	if n.above != nil && got.Cmp(n.above.Rat) <= 0 {
		ok = e.fault("exclusiveMinimum: got %s, want %s", number, n.above.text)
	}
	if n.below != nil && got.Cmp(n.below.Rat) >= 0 {
		ok = e.fault("exclusiveMaximum: got %s, want %s", number, n.below.text)
	}
	if n.multipleOf != nil {
		e.charge(4 * work)
		if !new(big.Rat).Quo(got, n.multipleOf.Rat).IsInt() {
			ok = e.fault("multipleOf: got %s, want %s", number, n.multipleOf.text)
		}
	}
	return ok
}

// kindOf returns the kind of a decoded value.
func kindOf(v any) kinds {
	switch v.(type) {
	case bool:
		return isBool
	case json.Number:
		return isNumber
	case string:
		return isString
	case []any:
		return isArray
	case map[string]any:
		return isObject
	}
	return isNull
}

// String returns the name of one kind.
func (k kinds) String() string {
	for name, kind := range kindNames {
		if kind == k {
			return name
		}
	}
	return ""
}

// decimal returns a number without the zeros at its ends: it is digits, an integer, times ten to
// the power of exponent. Equal numbers have the same form. Unlike a fraction, it is not longer than
// the text of the number. The digits of zero are "".
func decimal(n json.Number) (digits string, exponent int, negative bool) {
	digits, negative = strings.CutPrefix(string(n), "-")
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(digits[i+1:]) // hugeNumber has checked it
		digits = digits[:i]
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		exponent -= len(fraction)
	}
	length := len(digits)
	digits = strings.TrimRight(digits, "0")
	exponent += length - len(digits)
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		return "", 0, false
	}
	return digits, exponent, negative
}

// integer reports whether a number has no fraction.
func integer(n json.Number) bool {
	_, exponent, _ := decimal(n)
	return exponent >= 0
}

// key returns a text that equal values share, and only those.
func key(v any) string {
	e := evaluation{ctx: context.Background(), left: math.MaxInt, poll: math.MaxInt}
	return string(e.appendKey(nil, v))
}

// appendKey appends the key of a value.
func (e *evaluation) appendKey(b []byte, v any) []byte {
	e.charge(1)
	switch v := v.(type) {
	case nil:
		return append(b, '0')
	case bool:
		return strconv.AppendBool(b, v)
	case json.Number:
		e.charge(len(v) / bytesPerStep)
		digits, exponent, negative := decimal(v)
		b = append(b, 'n')
		if negative {
			b = append(b, '-')
		}
		return append(strconv.AppendInt(append(append(b, digits...), 'e'), int64(exponent), 10), ';')
	case string:
		e.charge(len(v) / bytesPerStep)
		return appendText(b, v)
	case []any:
		b = append(strconv.AppendInt(append(b, 'a'), int64(len(v)), 10), ';')
		for _, element := range v {
			b = e.appendKey(b, element)
		}
		return b
	case map[string]any:
		b = append(strconv.AppendInt(append(b, 'o'), int64(len(v)), 10), ';')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			e.charge(len(name) / bytesPerStep)
			b = e.appendKey(appendText(b, name), v[name])
		}
		return b
	}
	return b
}

func appendText(b []byte, text string) []byte {
	b = append(strconv.AppendInt(append(b, 's'), int64(len(text)), 10), ';')
	return append(b, text...)
}

// pointer returns the JSON pointer of a path.
func pointer(path []step) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(jsonedit.EscapeToken(s.name))
		}
	}
	return b.String()
}
