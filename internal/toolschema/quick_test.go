package toolschema

import (
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// quickSchemas are schemas that the quick check supports.
var quickSchemas = []string{
	`{"type":"object","properties":{"a":{"type":"integer","minimum":-3,"maximum":255},"b":{"type":["null","string"]},"c":{"type":"array","items":{"type":"number"}}},"required":["a","b"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"object","properties":{"a":{"type":"boolean"}},"required":["a"]}},"additionalProperties":{"type":"array","items":{"type":["integer","boolean"]}}}`,
	`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["a","é"],"properties":{"a":true,"b":{}},"additionalProperties":{"not":{}}}`,
	`{"type":"object","properties":{"a":{"type":["integer","number"]},"b":{"type":"integer"},"c":{"type":"null"}}}`,
	`{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"string"}}}`,
	`{"type":"object","properties":{"a":{},"b":{"type":"null"},"c":{},"d":{"type":"integer"},"e":{},"f":{},"g":{},"h":{},"i":{"type":"string"},"j":{},"k":{},"l":{"type":"boolean"}},"required":["l","a","x"],"additionalProperties":{"type":"integer"}}`,
	`{"type":"object","properties":{"a":{"type":"string","format":"date-time","x-mcp-header":"A"},"b":{"format":"uri"}}}`,
	`{"type":"object","properties":{"a":{"type":"string","enum":["x","é"]},"b":{"minLength":1,"maxLength":2,"pattern":"^[a-zé]"},"c":{"type":"array","items":{"enum":["x"]},"minItems":1,"maxItems":2},"d":{"enum":["1"]}}}`,
}

func TestNewQuickRejectsOtherKeywords(t *testing.T) {
	for _, text := range quickSchemas {
		if s, err := Compile(json.RawMessage(text)); err != nil || s.quick == nil {
			t.Errorf("%s: not supported, %v", text, err)
		}
	}
	for _, text := range []string{
		`{"type":"object","minProperties":1}`, `{"type":"object","properties":{"a":{"type":"string","multipleOf":2}}}`,
		`{"type":"object","properties":{"a":false}}`, `{"type":"object","properties":{"a":{"minimum":1.5}}}`,
		`{"type":"object","properties":{"a":{"enum":["x",1]}}}`, `{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`, `{"type":"object","$defs":{}}`,
	} {
		if s, err := Compile(json.RawMessage(text)); err != nil || s.quick != nil {
			t.Errorf("%s: supported, %v", text, err)
		}
	}
}

// The quick check accepts valid values without the validator.
func TestQuickAcceptsValidValues(t *testing.T) {
	for i, text := range map[int]string{ // by schema; the missing one admits no value
		0: `{"b":null,"c":[1,2.5],"a":255}`, 1: `{"a":{"a":true},"x":[1,false]}`, 3: `{"c":null,"b":1}`, 4: `{"x":{"y":"z"}}`,
		5: `{"a":1,"b":null,"c":2,"d":3,"e":4,"f":5,"g":6,"h":7,"i":"x","j":8,"k":9,"l":true,"x":0}`,
		6: `{"a":"tomorrow","b":"x y"}`, 7: `{"a":"\u00e9","b":"éé","c":["x","x"],"d":"1"}`,
	} {
		s, err := Compile(json.RawMessage(quickSchemas[i]))
		if err != nil || !s.quick.admits(json.RawMessage(text)) {
			t.Errorf("%s does not admit %s (%v)", quickSchemas[i], text, err)
		}
	}
}

// FuzzQuick checks that the validator accepts all values that the quick check accepts.
func FuzzQuick(f *testing.F) {
	for _, text := range []string{
		`{"a":1,"b":null}`, `{"a":255,"b":"x","c":[1,2.5]}`, `{"a":256,"b":"x"}`, `{"a":-4,"b":null}`, `{"a":1.0,"b":null}`, `{"a":1e2,"b":null}`,
		`{"a":1,"b":null,"d":1}`, `{"b":null}`, `[]`, `{}`, `null`, `{"a":{"a":true}}`, `{"a":{}}`, `{"x":[1,true]}`, `{"x":[1.5]}`, `{"x":{"y":"z"}}`,
		`{"a":1,"\u00e9":2}`, `{"\u0061":1,"é":2}`, `{"a":99999999999999999999,"b":1e400}`, `{"a":1,"a":2,"b":null}`, `{"a":1,"b":"\ud800"}`, `{"c":null}`,
		`{"a":1,"b":null,"d":2,"i":"x","l":true,"x":0}`, `{"x":0,"l":false,"a":{}}`, `{"a":1,"l":1,"x":0}`, `{"a":1,"l":true}`, `{"a":1,"l":true,"m":0,"x":0}`,
		`{"a":"é","b":"éé","c":["x"]}`, `{"a":"y"}`, `{"b":""}`, `{"b":"abc"}`, `{"b":"1"}`, `{"c":[]}`, `{"c":["x","x","x"]}`, `{"a":1}`, `{"d":1}`, `{"d":null}`, `{"d":{}}`, `{"d":[]}`, `{"d":"\u0031"}`,
	} {
		f.Add(text)
	}
	var schemas []*Schema
	for _, text := range quickSchemas {
		s, err := Compile(json.RawMessage(text))
		if err != nil {
			f.Fatal(err)
		}
		schemas = append(schemas, s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		err := codec.Unmarshal([]byte(text), value.Of(&v))
		for i, s := range schemas {
			quick := s.quick.admits(json.RawMessage(text))
			if quick && err != nil {
				t.Errorf("%s admits invalid JSON: %s: %v", quickSchemas[i], text, err)
			}
			if err != nil {
				continue
			}
			if _, long := hugeNumber(v); long {
				continue
			}
			if faults, err := s.validate(t.Context(), json.RawMessage(text)); quick && (faults != "" || err != nil) {
				t.Errorf("%s admits %s: %s (%v)", quickSchemas[i], text, faults, err)
			}
		}
	})
}
