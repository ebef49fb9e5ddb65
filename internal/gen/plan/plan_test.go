package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
	"github.com/mcpwire/mcpwire/internal/gen/plan"
)

// Rules that only drafts of the specification need. Each case has the definitions of a schema,
// without the braces around them, and the plan for them: structs as NAME{fields}, unions as NAME =
// discriminator, aliases, methods.
func TestRulesThatDraftsNeed(t *testing.T) {
	for _, tt := range []struct {
		name, defs string
		want       []string
	}{
		{
			"variants are told apart by a boolean constant, and named by it",
			`"A": {"anyOf": [
				{"type": "object", "properties": {"on": {"type": "boolean", "const": true}}, "required": ["on"]},
				{"type": "object", "properties": {"on": {"const": false}, "why": {"type": "string"}}, "required": ["on"]}]}`,
			[]string{
				"A = on is the boolean false: AOnFalse, true: AOnTrue",
				"AOnFalse{on bool, why? string}", "AOnTrue{on bool}",
			},
		},
		{
			"an enumeration of booleans is a boolean",
			`"A": {"type": "object", "properties": {"b": {"enum": [true]}, "c": {"anyOf": [{"const": true}, {"const": "auto"}]}}}`,
			[]string{
				"A{b? bool, c? AC}", "AC = Bool: ACBool, String: ACString", "ACBool = bool", "ACString = string",
			},
		},
		{
			"an inline shape gives way to a definition of its name",
			`"A": {"type": "object", "properties": {"content": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "array", "items": {"$ref": "#/$defs/AContent"}}]}}},
			"AContent": {"anyOf": [{"$ref": "#/$defs/T"}, {"$ref": "#/$defs/U"}]},
			"T": {"type": "object", "properties": {"type": {"const": "t"}}, "required": ["type"]},
			"U": {"type": "object", "properties": {"type": {"const": "u"}}, "required": ["type"]}`,
			[]string{
				"A{content? AContentValue}", "AContent = type is t: T, u: U",
				"AContentValue = Array: AContentValueList, Object: T", "AContentValueList = []AContent", "T{type}", "U{type}",
			},
		},
		{
			"of two definitions with one method, the one that a side lists is the message",
			`"PingRequest": {"type": "object", "properties": {"id": {"type": "string"}, "method": {"const": "ping"}}, "required": ["id", "method"]},
			"PartRequest": {"type": "object", "properties": {"method": {"const": "ping"}}, "required": ["method"]},
			"ClientRequest": {"anyOf": [{"$ref": "#/$defs/PingRequest"}]},
			"Result": {"type": "object", "properties": {"_meta": {"type": "object"}}}`,
			[]string{"Result{_meta? raw}", "method ping is PingRequest"},
		},
		{
			"messages are told apart by optional members of their results",
			`"M": {"anyOf": [{"$ref": "#/$defs/Done"}, {"$ref": "#/$defs/Asked"}, {"$ref": "#/$defs/Failed"}]},
			"Done": {"type": "object", "properties": {"result": {"$ref": "#/$defs/Any"}}, "required": ["result"]},
			"Asked": {"type": "object", "properties": {"result": {"$ref": "#/$defs/Ask"}}, "required": ["result"]},
			"Failed": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]},
			"Any": {"type": "object", "properties": {"_meta": {"type": "object"}}},
			"Ask": {"type": "object", "properties": {"_meta": {"type": "object"}, "questions": {"type": "string"}, "state": {"type": "string"}}}`,
			[]string{
				"Any{_meta? raw}", "Ask{_meta? raw, questions? string, state? string}", "Asked{result Ask}", "Done{result Any}", "Failed{error string}",
				"M = with error: Failed, result/questions: Asked, result/state: Asked, result: Done",
			},
		},
		{
			"results of which one leaves out _meta are told apart by the request",
			`"Log": {"type": "object", "properties": {"last": {"$ref": "#/$defs/ClientResult"}}},
			"ClientResult": {"anyOf": [{"$ref": "#/$defs/Result"}, {"$ref": "#/$defs/ListResult"}, {"$ref": "#/$defs/GetResult"}, {"$ref": "#/$defs/StopResult"}]},
			"Result": {"type": "object", "properties": {"_meta": {"type": "object"}}},
			"ListResult": {"type": "object", "properties": {"list": {"type": "string"}}, "required": ["list"]},
			"GetResult": {"type": "object", "properties": {"_meta": {"type": "object"}, "id": {"type": "string"}}, "required": ["id"]},
			"StopResult": {"type": "object", "properties": {"_meta": {"type": "object"}, "id": {"type": "string"}}, "required": ["id"]}`,
			[]string{
				"ClientResult = by method", "GetResult{_meta? raw, id string}", "ListResult{list string}", "Log{last? ClientResult}", "Result{_meta? raw}", "StopResult{_meta? raw, id string}",
			},
		},
		{
			"an allOf of closed objects has the members of all",
			`"A": {"allOf": [
				{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false},
				{"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], "additionalProperties": false}]}`,
			[]string{"A{a? string, b string}"},
		},
		{
			"a member that an allOf contradicts itself about stays raw, and is left out if it may be",
			`"A": {"type": "object", "properties": {"a": {"allOf": [{"type": "object", "required": ["x"]}, {"type": "integer"}]}}, "required": ["a"]},
			"B": {"allOf": [{"type": "object", "properties": {"b": {"type": "string"}}}, {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"type": "string"}}}]}`,
			[]string{"A{a raw}", "B{c? string}"},
		},
		{
			"an allOf may refer to one definition twice, through others too",
			`"A": {"allOf": [{"$ref": "#/$defs/B"}, {"$ref": "#/$defs/C"}]},
			"B": {"type": "object", "properties": {"m": {"$ref": "#/$defs/M"}}},
			"C": {"type": "object", "properties": {"m": {"$ref": "#/$defs/M"}, "c": {"type": "string"}}},
			"M": {"type": "object"}`,
			[]string{"A{c? string, m? raw}", "B{m? raw}", "C{c? string, m? raw}", "M = raw"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := load.Parse("r", "r.json", []byte(`{"$defs": {`+tt.defs+`}}`))
			if err != nil {
				t.Fatal(err)
			}
			graph, err := merge.Merge([]*load.Document{doc}, nil)
			if err != nil {
				t.Fatal(err)
			}
			pkg, err := plan.Build(graph, plan.Config{Name: "p"})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, describe(pkg)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func describe(p *ir.Package) (out []string) {
	for _, s := range p.Structs {
		var fields []string
		for _, f := range s.Fields {
			text := f.JSON
			if f.Presence != ir.Plain {
				text += "?"
			}
			if f.GoName != "" {
				text += " " + name(f.Type)
			}
			fields = append(fields, text)
		}
		out = append(out, s.GoName+"{"+strings.Join(fields, ", ")+"}")
	}
	for _, u := range p.Unions {
		how := decision(&u.Pick)
		if u.ByMethod {
			how = "by method"
		}
		out = append(out, u.GoName+" = "+how)
	}
	for _, o := range p.OneOrMany {
		out = append(out, o.GoName+" = one or many "+name(o.Elem))
	}
	for _, w := range p.Wrappers {
		out = append(out, w.GoName+" = "+name(w.Type))
	}
	for _, a := range p.Aliases {
		out = append(out, a.GoName+" = "+name(a.Type))
	}
	for _, m := range p.Methods {
		out = append(out, "method "+m.Name+" is "+m.Def)
	}
	slices.Sort(out)
	return out
}

func decision(p *ir.Pick) string {
	var parts []string
	for _, k := range p.Kinds {
		parts = append(parts, k.Kind+": "+name(k.Variant.Type))
	}
	for _, c := range p.Tags {
		text := c.Member + " is "
		if c.Bool {
			text += "the boolean "
		}
		for i, v := range c.Values {
			text += fmt.Sprintf("%s%s: %s", []string{"", ", "}[min(i, 1)], v.Value, decision(v.Pick))
		}
		parts = append(parts, text)
	}
	for i, k := range p.Keys {
		parts = append(parts, []string{"with ", ""}[min(i, 1)]+strings.Join(k.Path, "/")+": "+name(k.Variant.Type))
	}
	if p.Default != nil {
		parts = append(parts, name(p.Default.Type))
	}
	return strings.Join(parts, ", ")
}

func name(t ir.Type) string {
	switch t := t.(type) {
	case *ir.Struct:
		return t.GoName
	case *ir.Union:
		return t.GoName
	case *ir.OneOrMany:
		return t.GoName
	case *ir.Wrapper:
		return t.GoName
	case *ir.Alias:
		return t.GoName
	case *ir.List:
		return "[]" + name(t.Elem)
	case ir.Raw:
		return "raw"
	case ir.Prim:
		return [...]string{"string", "bool", "int", "float", "number"}[t]
	}
	return fmt.Sprintf("%T", t)
}
