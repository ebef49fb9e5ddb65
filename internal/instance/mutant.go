package instance

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Mutant returns a copy of v with one or two changes. In most cases its schema does not
// admit the copy.
func (m *Maker) Mutant(v *Value) *Value {
	v, all := v.clone()
	for range 1 + m.rng.IntN(2) {
		for range 20 {
			// There are many small values and few large ones: choose both with equal odds.
			at := all[m.rng.IntN(len(all))]
			if m.rng.IntN(3) == 0 {
				at = all[m.rng.IntN(min(len(all), 4))]
			}
			if mutations[m.rng.IntN(len(mutations))](m, at) {
				break
			}
		}
	}
	return v
}

// mutations change a value, or report false if they do not apply to it.
var mutations = []func(m *Maker, v *Value) bool{
	dropRequired, dropRequired, wrongKind, wrongKind, toNull, badConstant, badConstant, outOfBounds, outOfBounds,
	fraction, extraMember, changeLength, length, swapMembers,
}

func dropRequired(m *Maker, v *Value) bool {
	var names []string
	for _, s := range v.schemas {
		for _, name := range s.Required {
			if v.has(name) {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return false
	}
	name := names[m.rng.IntN(len(names))]
	v.members = slices.DeleteFunc(v.members, func(m member) bool { return m.key == name })
	return true
}

func wrongKind(m *Maker, v *Value) bool {
	old := v.kind
	for range 20 {
		if w := m.value(deep-2, &load.Schema{}); w.kind != old {
			v.assign(w)
			return true
		}
	}
	return false
}

// assign gives v the content of w, but keeps the schemas of v.
func (v *Value) assign(w *Value) {
	v.kind, v.text, v.items, v.members = w.kind, w.text, w.items, w.members
}

func toNull(m *Maker, v *Value) bool {
	if v.kind == null {
		return false
	}
	v.assign(&Value{kind: null, text: "null"})
	return true
}

func badConstant(m *Maker, v *Value) bool {
	for _, s := range v.schemas {
		if s.Const == nil && s.Enum == nil {
			continue
		}
		switch v.kind {
		case str:
			old := unquote(v.text)
			v.text = quote([]string{old + " ", strings.ToUpper(old), "", "bogus", old + "\x00", old[:len(old)/2]}[m.rng.IntN(6)])
		case number:
			v.text = v.rat().Add(v.rat(), big.NewRat(1, 1)).FloatString(0)
		default:
			return false
		}
		return true
	}
	return false
}

func outOfBounds(m *Maker, v *Value) bool {
	if v.kind != number {
		return false
	}
	for _, s := range v.schemas {
		for _, b := range [...]struct {
			bound *float64
			by    int64
		}{{s.Minimum, -1}, {s.Maximum, 1}, {s.ExclusiveMinimum, 0}, {s.ExclusiveMaximum, 0}} {
			if b.bound == nil || m.rng.IntN(2) == 0 {
				continue
			}
			n := new(big.Rat).SetFloat64(*b.bound)
			if m.rng.IntN(2) == 0 && !slices.Contains(s.Types, "integer") {
				v.text = n.Add(n, big.NewRat(b.by, 1_000_000_000_000_000_000)).FloatString(20)
			} else {
				v.text = n.Add(n, big.NewRat(b.by, 1)).FloatString(0)
			}
			return true
		}
	}
	return false
}

func fraction(m *Maker, v *Value) bool {
	if v.kind != number {
		return false
	}
	v.text = []string{"1.5", "15e-1", "0.1", "-0.5", "9007199254740993.5", "1e-1"}[m.rng.IntN(6)]
	return true
}

func extraMember(m *Maker, v *Value) bool {
	if v.kind != object {
		return false
	}
	name := m.names[m.rng.IntN(len(m.names))]
	if m.rng.IntN(2) == 0 {
		name = fmt.Sprintf("extra %d", m.rng.IntN(10))
	}
	if v.has(name) {
		return false
	}
	v.members = append(v.members, member{name, quote(name), m.value(deep-1, &load.Schema{})})
	return true
}

// changeLength makes a list too long or too short, or longer if its length is not limited.
func changeLength(m *Maker, v *Value) bool {
	if v.kind != array {
		return false
	}
	most := len(v.items) + 1
	for _, s := range v.schemas {
		if s.MinItems != nil && *s.MinItems > 0 && m.rng.IntN(2) == 0 {
			v.items = v.items[:min(len(v.items), *s.MinItems-1)]
			return true
		}
		if s.MaxItems != nil {
			most = *s.MaxItems + 1
		}
	}
	for len(v.items) < most {
		if len(v.items) > 0 && m.rng.IntN(8) > 0 {
			v.items = append(v.items, v.items[0])
		} else {
			v.items = append(v.items, m.value(deep-1, &load.Schema{}))
		}
	}
	return true
}

func length(m *Maker, v *Value) bool {
	if v.kind != str {
		return false
	}
	for _, s := range v.schemas {
		switch {
		case s.MinLength != nil && *s.MinLength > 0 && m.rng.IntN(2) == 0:
			v.text = quoteRandomly(m.rng, strings.Repeat("é", *s.MinLength-1))
			return true
		case s.MaxLength != nil:
			v.text = quoteRandomly(m.rng, strings.Repeat("é", *s.MaxLength+1))
			return true
		}
	}
	return false
}

// swapMembers exchanges the values of two members.
func swapMembers(m *Maker, v *Value) bool {
	if len(v.members) < 2 {
		return false
	}
	i, j := m.rng.IntN(len(v.members)), m.rng.IntN(len(v.members))
	v.members[i].value, v.members[j].value = v.members[j].value, v.members[i].value
	return i != j
}
