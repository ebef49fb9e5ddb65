package plan

import (
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
)

// dropEnvelopes removes the types of JSON-RPC messages, of the errors in them, and all types that
// only these refer to. Package codec/jsonrpc reads and writes these. The params, the results and
// the data of errors stay. A definition that loses its type is raw JSON text.
func (b *builder) dropEnvelopes() {
	p, used := b.pkg, b.used()
	for _, m := range p.Methods {
		used.add(m.Params)
		used.add(m.Result)
	}
	for _, n := range p.Needs {
		used.add(n.Params)
	}
	for _, d := range p.Defs {
		switch t := resolveAlias(notNull(d.Type)); {
		case used[t]:
			used.add(d.Type) // it may be an alias of an envelope that stays
		case isEnvelope(t, nil):
			d.Type = rawType(t)
		}
	}
	p.Structs = keep(used, p.Structs)
	p.Unions = keep(used, p.Unions)
	p.Enums = keep(used, p.Enums)
	p.OneOrMany = keep(used, p.OneOrMany)
	p.Wrappers = keep(used, p.Wrappers)
	p.Aliases = keep(used, p.Aliases)
	for _, s := range p.Structs {
		s.Unions = keep(used, s.Unions)
	}
	b.noteNames(used)
}

// used returns the types of the definitions that are no messages, and all types inside of them.
func (b *builder) used() uses {
	used := uses{}
	for _, d := range b.pkg.Defs {
		if isEnvelope(d.Type, nil) {
			used.add(errorData(d.Type))
		} else {
			used.add(d.Type)
		}
	}
	for _, a := range b.pkg.Aliases {
		if !isEnvelope(a, nil) {
			used.add(a)
		}
	}
	return used
}

// rawType returns the type for raw text that has the JSON type of t.
func rawType(t ir.Type) ir.Type {
	switch t.(type) {
	case *ir.Struct:
		return ir.RawObject
	case *ir.List:
		return ir.RawArray
	}
	return ir.RawAny
}

// isEnvelope reports whether t is a JSON-RPC message, an error in one, the union of all results of
// one side, or a union or list of those. Around lists the unions that t is inside of.
func isEnvelope(t ir.Type, around []*ir.Union) bool {
	t = resolveAlias(notNull(t))
	switch t := t.(type) {
	case *ir.Struct:
		return isRPC(t) || isErrorObject(t)
	case *ir.Union:
		around := append(slices.Clip(around), t)
		return t.ByMethod || slices.Contains(around[:len(around)-1], t) ||
			!slices.ContainsFunc(t.Variants, func(v *ir.Variant) bool { return !isEnvelope(v.Type, around) })
	case *ir.List:
		return isEnvelope(t.Elem, around)
	case *ir.Wrapper:
		return isEnvelope(t.Type, around)
	}
	return false
}

// isRPC reports whether s is a request, a notification or a response. Revisions before 2025-11-25
// do not state the member jsonrpc of requests.
func isRPC(s *ir.Struct) bool {
	named := strings.HasSuffix(s.Def, "Request") || strings.HasSuffix(s.Def, "Notification")
	return (member(s, "jsonrpc") != nil || named && member(s, "method") != nil) && hasOnly(s, "jsonrpc", "id", "method", "params", "result", "error")
}

// isErrorObject reports whether s is the error of a response, with a constant code.
func isErrorObject(s *ir.Struct) bool {
	code := member(s, "code")
	return code != nil && code.Const != "" && member(s, "message") != nil && hasOnly(s, "code", "message", "data")
}

// hasOnly reports whether s has no other members than the given ones.
func hasOnly(s *ir.Struct, members ...string) bool {
	return s.Rest == nil && !slices.ContainsFunc(s.Fields, func(f *ir.Field) bool { return !slices.Contains(members, f.JSON) })
}

// errorData returns the type of the data in the error response t, or nil.
func errorData(t ir.Type) ir.Type {
	for _, name := range []string{"error", "data"} {
		s, ok := resolveAlias(t).(*ir.Struct)
		if !ok || member(s, name) == nil {
			return nil
		}
		t = member(s, name).Type
	}
	return t
}

// member returns the field of s for the member called name, or nil.
func member(s *ir.Struct, name string) *ir.Field {
	if i := slices.IndexFunc(s.Fields, func(f *ir.Field) bool { return f.JSON == name }); i >= 0 {
		return s.Fields[i]
	}
	return nil
}

// uses is a set of types with all types inside of them.
type uses map[ir.Type]bool

func (u uses) add(t ir.Type) {
	if t == nil || u[t] {
		return
	}
	u[t] = true
	switch t := t.(type) {
	case *ir.Struct:
		for _, f := range t.Fields {
			if f.GoName != "" {
				u.add(f.Type)
			}
		}
		u.add(t.Rest)
	case *ir.Union:
		for _, v := range t.Variants {
			u.add(v.Type)
		}
	case *ir.OneOrMany:
		u.add(t.Elem)
	case *ir.Wrapper:
		u.add(t.Type)
	case *ir.Alias:
		u.add(t.Type)
	case *ir.List:
		u.add(t.Elem)
	case *ir.Map:
		u.add(t.Elem)
	case *ir.Nullable:
		u.add(t.Elem)
	}
}

// keep returns the declarations that are used.
func keep[T ir.Type](used uses, list []T) []T {
	return slices.DeleteFunc(list, func(t T) bool { return !used[t] })
}
