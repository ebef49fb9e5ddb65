package mcp_test

import (
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// Every definition of every revision survives decoding and encoding, and Validate agrees with an
// independent validator.
func TestEveryDefinitionSurvivesTheRoundTrip(t *testing.T) {
	for _, rev := range schema.Revisions() {
		t.Run(rev, func(t *testing.T) {
			t.Parallel()
			roundtrip.Run(t, generated(t, rev))
		})
	}
}

// Deep and long values of every definition are decoded in linear time, and refused beyond the limit
// of depth.
func TestEveryDefinitionResistsHostileValues(t *testing.T) {
	checked := map[string]bool{}
	for _, rev := range slices.Backward(schema.Revisions()) {
		t.Run(rev, func(t *testing.T) { roundtrip.Hostile(t, generated(t, rev), checked) })
	}
}

// generated returns the generated package in a revision.
func generated(t *testing.T, rev string) roundtrip.Package {
	src, err := schema.Read(rev)
	if err != nil {
		t.Fatal(err)
	}
	return roundtrip.Package{
		Revision: rev,
		Schema:   src,
		New: func(definition string) codec.Value {
			if v := mcp.New(definition); v != nil {
				return v
			}
			return nil
		},
		Params:        func(r *wire.Reader, method string) codec.Value { return mcp.ReadMethodParams(r, method) },
		Result:        func(r *wire.Reader, method string) codec.Value { return mcp.ReadMethodResult(r, method) },
		Validate:      func(definition string, text []byte) error { return mcp.Validate(mcp.Revision(rev), definition, text) },
		ValidateValue: func(v codec.Value) error { return v.(mcp.Value).Validate(mcp.Revision(rev)) },
	}
}
