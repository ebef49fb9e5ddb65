package skills_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/schema"
)

const revision = "ext-skills"

// base is the revision of the protocol that the extension belongs to. Definitions that they share
// are validated against it.
const base = mcp.Revision20260728

// Every definition of the extension survives decoding and encoding, and Validate agrees with an
// independent validator. Definitions that the extension shares with the protocol have the type of
// package mcp.
func TestEveryDefinitionSurvivesTheRoundTrip(t *testing.T) {
	roundtrip.Run(t, generated(t))
}

// Deep and long values of every definition are decoded in linear time, and refused beyond the limit
// of depth.
func TestEveryDefinitionResistsHostileValues(t *testing.T) {
	roundtrip.Hostile(t, generated(t), map[string]bool{})
}

// generated returns the generated package.
func generated(t *testing.T) roundtrip.Package {
	src, err := schema.Read(revision)
	if err != nil {
		t.Fatal(err)
	}
	return roundtrip.Package{
		Revision: revision,
		Schema:   src,
		New:      newValue,
		Params:   func(r *wire.Reader, method string) codec.Value { return skills.ReadMethodParams(r, method) },
		Validate: func(definition string, text []byte) error { return skills.Validate(revision, definition, text) },
		ValidateValue: func(v codec.Value) error {
			if v, ok := v.(skills.Value); ok {
				return v.Validate(revision)
			}
			return v.(mcp.Value).Validate(base)
		},
	}
}

func newValue(definition string) codec.Value {
	if v := skills.New(definition); v != nil {
		return v
	}
	if v := mcp.New(definition); v != nil {
		return v
	}
	return nil
}

// FuzzDefinition decodes values of every definition of the extension.
func FuzzDefinition(f *testing.F) {
	roundtrip.Fuzz(f, []string{revision}, newValue, func(revision, definition string, text []byte) error {
		return skills.Validate(skills.Revision(revision), definition, text)
	})
}
