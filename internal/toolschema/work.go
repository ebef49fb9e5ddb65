package toolschema

import (
	"reflect"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The validator checks every value against every subschema that applies to it, once for each path
// that leads there. With references, the number of paths can double at each level of the schema or
// of the value: a short value would take years. So the steps are counted before validation.
// Counting takes one step for each pair of a value and a subschema.

const (
	// maxSteps is the number of steps that the validator may take in addition to stepsPerByte for
	// each byte of the value.
	maxSteps     = 1_000_000
	stepsPerByte = 8
	// maxPairs is the maximum number of counted pairs for a schema with references. The count
	// keeps all pairs in memory.
	maxPairs = 4_000_000
)

// tooMuchWork reports whether the validator would take more steps than the length of a value
// admits.
func (s *Schema) tooMuchWork(v any, length int) bool {
	limit := float64(maxSteps) + stepsPerByte*float64(length)
	if !s.refers && float64(s.size)*float64(length) <= limit {
		return false
	}
	w := work{left: int(limit), anchors: s.anchors}
	if s.refers { // otherwise only one path leads to each pair
		w.left, w.known = min(w.left, maxPairs), map[pair]float64{}
	}
	return w.steps(s.compiled, v) > limit || w.left < 0
}

// measure records the facts about the subschemas that tooMuchWork needs.
func (s *Schema) measure() {
	s.anchors = map[string][]*jsonschema.Schema{}
	seen := map[*jsonschema.Schema]bool{}
	var visit func(*jsonschema.Schema)
	visit = func(sub *jsonschema.Schema) {
		if sub == nil || seen[sub] {
			return
		}
		seen[sub] = true
		s.size++
		s.refers = s.refers || sub.Ref != nil || sub.RecursiveRef != nil || sub.DynamicRef != nil
		if sub.DynamicAnchor != "" {
			s.anchors[sub.DynamicAnchor] = append(s.anchors[sub.DynamicAnchor], sub)
		}
		if sub.RecursiveAnchor {
			s.anchors[""] = append(s.anchors[""], sub)
		}
		for _, list := range [][]*jsonschema.Schema{inPlace(sub), ofMembers(sub), ofElements(sub)} {
			for _, inner := range list {
				visit(inner)
			}
		}
		if sub.DynamicRef != nil {
			visit(sub.DynamicRef.Ref)
		}
	}
	visit(s.compiled)
}

// inPlace returns the subschemas for the same value, except for dynamic references. Some are nil.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	list := slices.Concat([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}, s.AllOf, s.AnyOf, s.OneOf)
	for _, sub := range s.DependentSchemas {
		list = append(list, sub)
	}
	for _, sub := range s.Dependencies {
		list = append(list, asSchema(sub))
	}
	return list
}

// ofMembers returns the subschemas for the members of an object and their names; some are nil.
func ofMembers(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{s.PropertyNames, asSchema(s.AdditionalProperties), s.UnevaluatedProperties}
	for _, sub := range s.Properties {
		list = append(list, sub)
	}
	for _, sub := range s.PatternProperties {
		list = append(list, sub)
	}
	return list
}

// ofElements returns the subschemas for the elements of an array; some are nil.
func ofElements(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{asSchema(s.Items), asSchema(s.AdditionalItems), s.Items2020, s.Contains, s.UnevaluatedItems}
	if each, ok := s.Items.([]*jsonschema.Schema); ok {
		list = append(list, each...)
	}
	return append(list, s.PrefixItems...)
}

// asSchema returns v if it is a schema, and nil otherwise.
func asSchema(v any) *jsonschema.Schema {
	s, _ := v.(*jsonschema.Schema)
	return s
}

// work counts the steps of one validation.
type work struct {
	left    int // steps that may still be counted; once it is negative, the count is wrong
	anchors map[string][]*jsonschema.Schema
	known   map[pair]float64
}

// pair is a schema and a value. A map or slice is identified by its address. The address of any
// other value is 0, because all of those take the same number of steps.
type pair struct {
	schema *jsonschema.Schema
	value  uintptr
}

// steps returns the maximum number of steps that the validator takes for a value.
func (w *work) steps(s *jsonschema.Schema, v any) (n float64) {
	if s == nil {
		return 0
	}
	if w.left--; w.left < 0 {
		return 0
	}
	p := pair{schema: s}
	switch x := v.(type) {
	case map[string]any:
		p.value = reflect.ValueOf(x).Pointer()
	case []any:
		if len(x) > 0 { // empty slices may have the same address as others
			p.value = reflect.ValueOf(x).Pointer()
		}
	}
	if n, ok := w.known[p]; ok {
		return n
	}
	if w.known != nil {
		w.known[p] = 0 // a schema that refers to itself for the same value is an error
	}
	n = 1
	if !excluded(s, v) {
		n += w.below(s, v)
	}
	if w.known != nil {
		w.known[p] = n
	}
	return n
}

// excluded reports whether v is an object or array and the schema does not admit its type.
func excluded(s *jsonschema.Schema, v any) bool {
	if s.Types == nil || s.Types.IsEmpty() {
		return false
	}
	switch v.(type) {
	case map[string]any:
		return !slices.Contains(s.Types.ToStrings(), "object")
	case []any:
		return !slices.Contains(s.Types.ToStrings(), "array")
	}
	return false
}

// below returns the steps for the subschemas of s.
func (w *work) below(s *jsonschema.Schema, v any) (n float64) {
	for _, sub := range inPlace(s) {
		n += w.steps(sub, v)
	}
	if s.DynamicRef != nil {
		n += w.steps(s.DynamicRef.Ref, v)
		for _, sub := range w.anchors[s.DynamicRef.Anchor] {
			n += w.steps(sub, v)
		}
	}
	if s.RecursiveRef != nil {
		for _, sub := range w.anchors[""] {
			n += w.steps(sub, v)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		n += w.members(s, v)
	case []any:
		n += w.elements(s, v)
	}
	return n
}

func (w *work) members(s *jsonschema.Schema, object map[string]any) (n float64) {
	for name, v := range object {
		if w.left < 0 {
			return n
		}
		sub := s.Properties[name]
		if sub == nil {
			sub = asSchema(s.AdditionalProperties)
		}
		n += w.steps(sub, v) + w.steps(s.PropertyNames, name) + w.steps(s.UnevaluatedProperties, v)
		for pattern, sub := range s.PatternProperties {
			if pattern.MatchString(name) {
				n += w.steps(sub, v)
			}
		}
	}
	return n
}

func (w *work) elements(s *jsonschema.Schema, list []any) (n float64) {
	each, _ := s.Items.([]*jsonschema.Schema)
	for i, v := range list {
		if w.left < 0 {
			return n
		}
		var sub *jsonschema.Schema
		switch {
		case i < len(s.PrefixItems):
			sub = s.PrefixItems[i]
		case s.Items2020 != nil:
			sub = s.Items2020
		case i < len(each):
			sub = each[i]
		case each != nil:
			sub = asSchema(s.AdditionalItems)
		default:
			sub = asSchema(s.Items)
		}
		n += w.steps(sub, v) + w.steps(s.Contains, v) + w.steps(s.UnevaluatedItems, v)
	}
	return n
}
