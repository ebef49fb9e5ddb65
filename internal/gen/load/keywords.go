package load

// Effect is what a keyword does to the output of the generator.
type Effect string

// The effects.
const (
	// Generated keywords decide Go types, names or comments, and limit what Validate accepts.
	Generated Effect = "generated"
	// Validated keywords limit only what Validate accepts.
	Validated Effect = "validated"
	// Ignored keywords have no effect. The command lists them.
	Ignored Effect = "ignored"
	// Refused keywords are errors, unless a row of the overrides tells the generator to ignore them.
	Refused Effect = "refused"
)

// Keyword is what one keyword of JSON Schema means to the generator.
type Keyword struct {
	Name   string
	Effect Effect
	Note   string // more about the effect, for the documentation; may be empty
}

// Keywords is the table of all keywords of the drafts 4, 6, 7, 2019-09 and 2020-12. It applies to
// all drafts. A keyword that a draft does not have is read as in the drafts that have it. Any other
// keyword is ignored.
var Keywords = []Keyword{
	{"$anchor", Generated, "a name that a $ref can use"},
	{"$comment", Ignored, ""},
	{"$defs", Generated, "definitions, as definitions are"},
	{"$dynamicAnchor", Generated, "as $anchor"},
	{"$dynamicRef", Generated, "as $ref: a file has no other scope that could replace the target"},
	{"$id", Generated, "the address that a $ref can use"},
	{"$recursiveAnchor", Generated, "see $recursiveRef"},
	{"$recursiveRef", Generated, "as $ref"},
	{"$ref", Generated, "the type of the definition; in drafts until 7, keywords beside it have no effect"},
	{"$schema", Generated, "the draft; inside of a file, it marks a schema that is a document of its own"},
	{"$vocabulary", Ignored, ""},
	{"additionalItems", Validated, "as items beside prefixItems"},
	{"additionalProperties", Generated, "the type of a map, or of the field AdditionalProperties"},
	{"allOf", Generated, "one struct with the members of all"},
	{"anyOf", Generated, "a union, an enumeration, or a pointer for a choice with null"},
	{"const", Generated, "a member without a field; the discriminator of a union"},
	{"contains", Validated, ""},
	{"contentEncoding", Ignored, "the type is string, whatever the string holds"},
	{"contentMediaType", Ignored, "as contentEncoding"},
	{"contentSchema", Ignored, "as contentEncoding"},
	{"default", Generated, "a part of the comment; decoding does not set it"},
	{"definitions", Generated, "a type for each"},
	{"dependencies", Validated, "as dependentRequired and dependentSchemas"},
	{"dependentRequired", Validated, ""},
	{"dependentSchemas", Validated, ""},
	{"deprecated", Ignored, ""},
	{"description", Generated, "the comment"},
	{"else", Validated, "members that only this schema names are in the field Extra"},
	{"enum", Generated, "an enumeration"},
	{"examples", Ignored, ""},
	{"exclusiveMaximum", Validated, ""},
	{"exclusiveMinimum", Validated, ""},
	{"format", Ignored, "an annotation, as in 2019-09 and later; the drafts before them check it"},
	{"id", Generated, "as $id, in draft 4"},
	{"if", Validated, ""},
	{"items", Generated, "the type of the elements of a list; a list of schemas is read as prefixItems"},
	{"maxContains", Validated, ""},
	{"maximum", Validated, ""},
	{"maxItems", Validated, ""},
	{"maxLength", Validated, ""},
	{"maxProperties", Validated, ""},
	{"minContains", Validated, ""},
	{"minimum", Validated, ""},
	{"minItems", Validated, ""},
	{"minLength", Validated, ""},
	{"minProperties", Validated, ""},
	{"multipleOf", Validated, "with at most 18 digits"},
	{"not", Validated, "not {} also removes the member from the type"},
	{"oneOf", Generated, "as anyOf"},
	{"pattern", Validated, "an expression of package regexp, so that lookaheads and references back are errors"},
	{"patternProperties", Generated, "the type of a map, if all members match one pattern; see pattern"},
	{"prefixItems", Generated, "a list of raw JSON texts"},
	{"properties", Generated, "fields"},
	{"propertyNames", Validated, ""},
	{"readOnly", Ignored, ""},
	{"required", Generated, "a field that is not a pointer"},
	{"then", Validated, "as else"},
	{"title", Generated, "the name of the schema at the top of a file; ignored elsewhere"},
	{"type", Generated, "the Go type"},
	{"unevaluatedItems", Refused, "accepted if it allows all items"},
	{"unevaluatedProperties", Refused, "accepted if it allows all members, or if no union or condition beside it names members"},
	{"uniqueItems", Validated, ""},
	{"writeOnly", Ignored, ""},
}

// keywords are the rows of Keywords by name.
var keywords = func() map[string]*Keyword {
	m := map[string]*Keyword{}
	for i := range Keywords {
		m[Keywords[i].Name] = &Keywords[i]
	}
	return m
}()
