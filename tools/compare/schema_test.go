package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/schema"
)

// An independent validator agrees with each input on whether it is valid.
func TestInputsAreAsValidAsTheyClaim(t *testing.T) {
	validators := map[string]*validator{}
	for _, g := range Groups() {
		for _, in := range g.Inputs {
			v := validators[in.Rev]
			if v == nil {
				v = newValidator(t, in.Rev)
				validators[in.Rev] = v
			}
			if codec.Valid([]byte(in.Doc)) != nil {
				if in.Want != Refuse {
					t.Errorf("%s, %s: malformed", g.Name, in.Name)
				}
				continue
			}
			err := v.validate(t, in)
			if in.Want == Keep && err != nil {
				t.Errorf("%s, %s: not valid: %v", g.Name, in.Name, err)
			}
			if in.Want == Refuse && err == nil {
				t.Errorf("%s, %s: valid", g.Name, in.Name)
			}
		}
	}
}

// validator checks against the definitions of one revision.
type validator struct {
	definitions string // the member that holds them
	names       map[string]any
	compiler    *jsonschema.Compiler
}

func newValidator(t *testing.T, rev string) *validator {
	t.Helper()
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{compiler: jsonschema.NewCompiler()}
	for _, v.definitions = range []string{"$defs", "definitions"} {
		if v.names, _ = doc.(map[string]any)[v.definitions].(map[string]any); v.names != nil {
			break
		}
	}
	if err := v.compiler.AddResource("mem:///schema.json", doc); err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *validator) validate(t *testing.T, in Input) error {
	t.Helper()
	path := in.Def
	if v.names[in.Def] == nil {
		path = strings.TrimSuffix(in.Def, "Params") + "/properties/params"
	}
	s, err := v.compiler.Compile("mem:///schema.json#/" + v.definitions + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(in.Doc))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}
