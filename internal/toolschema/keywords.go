package toolschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// draft is a version of JSON Schema: 4, 6, 7, 2019 or 2020.
type draft int

// dialects are the supported drafts with their URIs, the default first.
var dialects = []struct {
	draft draft
	uri   string
}{
	{2020, "https://json-schema.org/draft/2020-12/schema"},
	{2019, "https://json-schema.org/draft/2019-09/schema"},
	{7, "http://json-schema.org/draft-07/schema#"},
	{6, "http://json-schema.org/draft-06/schema#"},
	{4, "http://json-schema.org/draft-04/schema#"},
}

// Dialects returns the URIs of the JSON Schema dialects that a schema may name in $schema, the
// default first.
func Dialects() []string {
	var list []string
	for _, d := range dialects {
		list = append(list, d.uri)
	}
	return list
}

// draftOf returns the draft with a URI, whose empty fragment does not matter, or 0.
func draftOf(uri string) draft {
	for _, d := range dialects {
		if strings.TrimSuffix(d.uri, "#") == strings.TrimSuffix(uri, "#") {
			return d.draft
		}
	}
	return 0
}

// shape is what the value of a keyword has to be.
type shape int

const (
	anything shape = iota
	aSchema
	boolOrSchema // before schemas could be bools
	schemas
	schemaOrSchemas
	namedSchemas
	schemasOrNames // by name
	namesByName
	names // without duplicates
	someValues
	values
	types
	aText
	anAnchor
	anOldAnchor
	anAddress // without a fragment
	aBool
	bools // by name
	aNumber
	aPositiveNumber
	aCount
)

// shapes are the shapes as schemas.
var shapes = [...]string{
	anything:        `{}`,
	aSchema:         `{"$ref":"#"}`,
	boolOrSchema:    `{"anyOf":[{"type":"boolean"},{"$ref":"#"}]}`,
	schemas:         `{"$ref":"#/definitions/schemaArray"}`,
	schemaOrSchemas: `{"anyOf":[{"$ref":"#"},{"$ref":"#/definitions/schemaArray"}]}`,
	namedSchemas:    `{"type":"object","additionalProperties":{"$ref":"#"}}`,
	schemasOrNames:  `{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#"},{"$ref":"#/definitions/stringArray"}]}}`,
	namesByName:     `{"type":"object","additionalProperties":{"$ref":"#/definitions/stringArray"}}`,
	names:           `{"$ref":"#/definitions/stringArray"}`,
	someValues:      `{"type":"array","minItems":1,"uniqueItems":true}`,
	values:          `{"type":"array"}`,
	types:           `{"anyOf":[{"$ref":"#/definitions/simpleTypes"},{"type":"array","items":{"$ref":"#/definitions/simpleTypes"},"minItems":1,"uniqueItems":true}]}`,
	aText:           `{"type":"string"}`,
	anAnchor:        `{"type":"string","pattern":"^[A-Za-z_][-A-Za-z0-9._]*$"}`,
	anOldAnchor:     `{"type":"string","pattern":"^[A-Za-z][-A-Za-z0-9.:_]*$"}`,
	anAddress:       `{"type":"string","pattern":"^[^#]*#?$"}`,
	aBool:           `{"type":"boolean"}`,
	bools:           `{"type":"object","additionalProperties":{"type":"boolean"}}`,
	aNumber:         `{"type":"number"}`,
	aPositiveNumber: `{"type":"number","exclusiveMinimum":0}`,
	aCount:          `{"$ref":"#/definitions/nonNegativeInteger"}`,
}

// keyword is a keyword in some drafts. A keyword whose shape has changed has several rows.
type keyword struct {
	name        string
	first, last draft
	shape       shape
}

var keywords = []keyword{
	{"id", 4, 4, aText},
	{"$id", 6, 7, aText},
	{"$id", 2019, 2020, anAddress},
	{"$schema", 4, 2020, aText},
	{"$ref", 4, 2020, aText},
	{"$anchor", 2019, 2019, anOldAnchor},
	{"$anchor", 2020, 2020, anAnchor},
	{"$recursiveRef", 2019, 2020, aText},
	{"$recursiveAnchor", 2019, 2019, aBool},
	{"$recursiveAnchor", 2020, 2020, anAnchor}, // of no effect
	{"$dynamicRef", 2020, 2020, aText},
	{"$dynamicAnchor", 2020, 2020, anAnchor},
	{"$vocabulary", 2019, 2020, bools},
	{"$comment", 7, 2020, aText},
	{"$defs", 2019, 2020, namedSchemas},
	{"definitions", 4, 2020, namedSchemas},

	{"allOf", 4, 2020, schemas},
	{"anyOf", 4, 2020, schemas},
	{"oneOf", 4, 2020, schemas},
	{"not", 4, 2020, aSchema},
	{"if", 7, 2020, aSchema},
	{"then", 7, 2020, aSchema},
	{"else", 7, 2020, aSchema},
	{"properties", 4, 2020, namedSchemas},
	{"patternProperties", 4, 2020, namedSchemas},
	{"additionalProperties", 4, 4, boolOrSchema},
	{"additionalProperties", 6, 2020, aSchema},
	{"propertyNames", 6, 2020, aSchema},
	{"dependencies", 4, 2020, schemasOrNames},
	{"dependentSchemas", 2019, 2020, namedSchemas},
	{"dependentRequired", 2019, 2020, namesByName},
	{"prefixItems", 2020, 2020, schemas},
	{"items", 4, 2019, schemaOrSchemas},
	{"items", 2020, 2020, aSchema},
	{"additionalItems", 4, 4, boolOrSchema},
	{"additionalItems", 6, 2019, aSchema},
	{"contains", 6, 2020, aSchema},
	{"unevaluatedProperties", 2019, 2020, aSchema},
	{"unevaluatedItems", 2019, 2020, aSchema},
	{"contentSchema", 2019, 2020, aSchema},

	{"type", 4, 2020, types},
	{"enum", 4, 7, someValues},
	{"enum", 2019, 2020, values},
	{"const", 6, 2020, anything},
	{"multipleOf", 4, 2020, aPositiveNumber},
	{"maximum", 4, 2020, aNumber},
	{"exclusiveMaximum", 4, 4, aBool},
	{"exclusiveMaximum", 6, 2020, aNumber},
	{"minimum", 4, 2020, aNumber},
	{"exclusiveMinimum", 4, 4, aBool},
	{"exclusiveMinimum", 6, 2020, aNumber},
	{"maxLength", 4, 2020, aCount},
	{"minLength", 4, 2020, aCount},
	{"pattern", 4, 2020, aText},
	{"maxItems", 4, 2020, aCount},
	{"minItems", 4, 2020, aCount},
	{"uniqueItems", 4, 2020, aBool},
	{"maxContains", 2019, 2020, aCount},
	{"minContains", 2019, 2020, aCount},
	{"maxProperties", 4, 2020, aCount},
	{"minProperties", 4, 2020, aCount},
	{"required", 4, 2020, names},
	{"format", 4, 2020, aText},

	{"title", 4, 2020, aText},
	{"description", 4, 2020, aText},
	{"default", 4, 2020, anything},
	{"examples", 7, 2020, values},
	{"readOnly", 7, 2020, aBool},
	{"writeOnly", 7, 2020, aBool},
	{"deprecated", 2019, 2020, aBool},
	{"contentMediaType", 7, 2020, aText},
	{"contentEncoding", 7, 2020, aText},
}

// Keywords returns the names of all keywords of all drafts, sorted.
func Keywords() []string {
	var names []string
	for _, k := range keywords {
		names = append(names, k.name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// vocabulary is the keywords of one draft.
type vocabulary struct {
	shapes map[string]shape
	// subschemas are the keywords that hold schemas, sorted by name.
	subschemas []string
	// meta is the schema of schemas. Unlike the published ones, it is one document without
	// annotations and formats.
	meta any

	once     sync.Once
	compiled *Schema // meta
}

// vocabularyOf returns the vocabulary of a draft.
func vocabularyOf(d draft) *vocabulary { return vocabularies()[d] }

var vocabularies = sync.OnceValue(func() map[draft]*vocabulary {
	all := map[draft]*vocabulary{}
	for _, d := range dialects {
		all[d.draft] = newVocabulary(d.draft)
	}
	return all
})

func newVocabulary(d draft) *vocabulary {
	voc := &vocabulary{shapes: map[string]shape{}}
	kinds, extra, least := `["object","boolean"]`, "", ""
	if d == 4 {
		kinds, least = `"object"`, `,"minItems":1`
		extra = `,"dependencies":{"exclusiveMaximum":["maximum"],"exclusiveMinimum":["minimum"]}`
	}
	var properties []string
	for _, k := range keywords {
		if d < k.first || d > k.last {
			continue
		}
		voc.shapes[k.name] = k.shape
		properties = append(properties, fmt.Sprintf("%q:%s", k.name, shapes[k.shape]))
		switch k.shape {
		case aSchema, boolOrSchema, schemas, schemaOrSchemas, namedSchemas, schemasOrNames:
			voc.subschemas = append(voc.subschemas, k.name)
		}
	}
	slices.Sort(voc.subschemas)
	text := fmt.Sprintf(`{"type":%s,"properties":{%s}%s,"definitions":{`+
		`"schemaArray":{"type":"array","minItems":1,"items":{"$ref":"#"}},`+
		`"nonNegativeInteger":{"type":"integer","minimum":0},`+
		`"simpleTypes":{"enum":["array","boolean","integer","null","number","object","string"]},`+
		`"stringArray":{"type":"array","items":{"type":"string"},"uniqueItems":true%s}}}`,
		kinds, strings.Join(properties, ","), extra, least)
	if err := codec.Unmarshal(json.RawMessage(text), value.Of(&voc.meta)); err != nil {
		panic(err) // the keywords are constant
	}
	return voc
}

// schemas returns the schema of schemas, to validate them.
func (voc *vocabulary) schemas() *Schema {
	voc.once.Do(func() {
		c := compiler{vocabulary: vocabularyOf(2020), draft: 2020}
		s, err := c.compile(voc.meta)
		if err != nil {
			panic(err) // the keywords are constant
		}
		voc.compiled = s
	})
	return voc.compiled
}
