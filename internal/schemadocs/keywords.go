package schemadocs

// kind classifies the value of a keyword and locates the schemas in it.
type kind int

const (
	unknown      kind = iota
	prose             // text for people, left out
	plain             // a value without schemas in it, such as that of type, const or maximum
	oneSchema         // a schema
	schemaList        // a list of schemas
	oneOrList         // one or the other (items, before draft 2019-09)
	namedSchemas      // an object whose members are schemas
)

func (k kind) String() string {
	switch k {
	case oneSchema:
		return "a schema"
	case schemaList:
		return "a list of schemas"
	case oneOrList:
		return "a schema or a list of schemas"
	case namedSchemas:
		return "an object of schemas"
	}
	return "any value"
}

// kindOf returns the kind of a keyword of JSON Schema draft-07 or 2020-12. It does not support
// keywords that change the meaning of $ref, such as $anchor and $dynamicRef, or that mix schemas
// with plain values, such as dependencies. The protocol's schemas use none of these, and in a new
// revision they are an error.
func kindOf(keyword string) kind {
	switch keyword {
	case "title", "description", "$comment", "examples":
		return prose
	case "$schema", "$id", "$ref", "type", "const", "enum", "default", "format", "required",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "contentEncoding", "contentMediaType",
		"minItems", "maxItems", "uniqueItems", "minContains", "maxContains",
		"minProperties", "maxProperties", "dependentRequired",
		"deprecated", "readOnly", "writeOnly":
		return plain
	case "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems",
		"contains", "not", "if", "then", "else", "contentSchema":
		return oneSchema
	case "anyOf", "oneOf", "allOf", "prefixItems":
		return schemaList
	case "items":
		return oneOrList
	case "$defs", "definitions", "properties", "patternProperties", "dependentSchemas":
		return namedSchemas
	}
	return unknown
}
