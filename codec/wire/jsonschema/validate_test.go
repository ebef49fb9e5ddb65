package jsonschema_test

import (
	"errors"
	"testing"

	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
)

// Validate finds the schema of a definition in a revision. For a definition that the revision does
// not have, it returns an error that is not Faults.
func TestValidateByDefinition(t *testing.T) {
	table := jsonschema.Table{
		Revisions:   []string{"1", "2"},
		Definitions: []jsonschema.Definition{{Name: "Count", Nodes: []int32{-1, 2}}},
		Nodes:       []jsonschema.Node{{}, {Types: jsonschema.Never}, {Types: jsonschema.Integer}},
	}
	if err := table.Validate("2", "Count", []byte(`5`)); err != nil {
		t.Error(err)
	}
	var faults jsonschema.Faults
	if err := table.Validate("2", "Count", []byte(`"5"`)); !errors.As(err, &faults) {
		t.Errorf("a string: got %v, want faults", err)
	}
	for _, at := range [][2]string{{"1", "Count"}, {"2", "Name"}, {"3", "Count"}} {
		if err := table.Validate(at[0], at[1], []byte(`5`)); err == nil || errors.As(err, &faults) {
			t.Errorf("definition %s of revision %s: got %v, want an error that is not Faults", at[1], at[0], err)
		}
	}
}
