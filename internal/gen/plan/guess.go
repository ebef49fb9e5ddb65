package plan

import (
	"reflect"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// guesses lists the variants to try without looking ahead, selected by the first member of the
// object. A right guess saves a scan of the whole value for members that select another variant. It
// returns nil if the value read could not confirm a guess.
func guesses(p ir.Pick) []ir.Guess {
	rest, tag := p, ir.TagCase{}
	if len(p.Tags) == 1 && p.Tags[0].Absent != nil && p.Tags[0].Other != nil {
		tag, rest = p.Tags[0], *p.Tags[0].Absent
		if tag.Bool || !reflect.DeepEqual(rest, *tag.Other) {
			return nil
		}
	}
	if rest.Default == nil || len(rest.Tags) > 0 || len(p.Kinds) > 0 || len(rest.Keys) > 1 || len(rest.Keys) == 0 && tag.Member == "" {
		return nil
	}
	var list []ir.Guess
	for _, k := range rest.Keys {
		unless, ok := contradictions(k.Variant, tag, nil)
		if len(k.Path) > 1 || !ok {
			return nil
		}
		list = append(list, ir.Guess{First: &k, Variant: k.Variant, Unless: unless})
	}
	unless, ok := contradictions(rest.Default, tag, rest.Keys)
	if !ok {
		return nil
	}
	return append(list, ir.Guess{Variant: rest.Default, Unless: unless})
}

// contradictions lists the members and values that show, in a value read as v, that the tag or one
// of the keys selects another variant. It returns false if a value read as v would not show that.
func contradictions(v *ir.Variant, tag ir.TagCase, keys []ir.KeyCase) (list []ir.Contradiction, ok bool) {
	s, ok := v.Type.(*ir.Struct)
	if !ok || s.Rest != nil && (len(keys) > 0 || tag.Member != "" && member(s, tag.Member) == nil) {
		return nil, false
	}
	switch f := member(s, tag.Member); {
	case tag.Member == "":
	case f == nil:
		list = append(list, ir.Contradiction{Member: tag.Member})
	case f.Type != ir.String || f.Presence != ir.Pointer:
		return nil, false
	default:
		for _, value := range tag.Values {
			list = append(list, ir.Contradiction{Field: f, Value: value.Value})
		}
	}
	for _, k := range keys {
		if member(s, k.Path[0]) != nil {
			return nil, false
		}
		list = append(list, ir.Contradiction{Member: k.Path[0]})
	}
	return list, true
}

// recursive reports whether a value of u can contain another one. Guesses would then read such a
// value twice at each level, which takes time that grows exponentially with the depth.
func recursive(u *ir.Union) bool {
	seen := map[ir.Type]bool{}
	var reaches func(t ir.Type) bool
	reaches = func(t ir.Type) bool {
		switch t := t.(type) {
		case *ir.Alias:
			return reaches(t.Type)
		case *ir.OneOrMany:
			return reaches(t.Elem)
		case *ir.List:
			return reaches(t.Elem)
		case *ir.Map:
			return reaches(t.Elem)
		case *ir.Nullable:
			return reaches(t.Elem)
		case *ir.Wrapper:
			return reaches(t.Type)
		case *ir.Union:
			if t == u && len(seen) > 0 {
				return true
			}
			if seen[t] {
				return false
			}
			seen[t] = true
			for _, v := range t.Variants {
				if reaches(v.Type) {
					return true
				}
			}
		case *ir.Struct:
			if seen[t] {
				return false
			}
			seen[t] = true
			if t.Rest != nil && reaches(t.Rest) {
				return true
			}
			for _, f := range t.Fields {
				if reaches(f.Type) {
					return true
				}
			}
		}
		return false
	}
	return reaches(u)
}
