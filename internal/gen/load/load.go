// Package load reads a JSON schema into positioned nodes.
//
// It is the first stage of the generator: bytes in, a [Document] out. [Keywords] is the table of
// what each keyword means to the generator. Each node knows its JSON pointer, for error messages.
//
// A [Document] has named definitions alone. A $ref to any other place gives that place a name, and
// the schema at the top of a file is a definition, too, if it limits values.
package load

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document is one schema file: the definitions of one revision.
type Document struct {
	Revision string             // label of the revision, such as "2025-11-25"
	File     string             // name of the file, for errors
	Defs     map[string]*Schema // definitions by name

	// Ignored counts the keywords that had no effect, by name.
	Ignored map[string]int
	// Notes are what a reader of the output should know, each with its place.
	Notes []*Error
}

// Names returns the names of all definitions, sorted.
func (d *Document) Names() []string { return slices.Sorted(maps.Keys(d.Defs)) }

// Schema is one node of a document. The zero value of every field means that the
// keyword is absent; a schema with no keyword at all admits every value.
type Schema struct {
	Doc     *Document // the document that holds the node
	Pointer string    // RFC 6901 pointer of the node in its file
	file    string    // the file, if it is not that of Doc

	False bool   // the boolean schema false: admits nothing
	Ref   string // name of the definition that $ref points at

	Types []string          // type: one or more names; nil admits every type
	Const json.RawMessage   // const
	Enum  []json.RawMessage // enum

	Properties    []Property // properties, sorted by name; nil without the keyword, empty for {}
	Required      []string   // required, sorted
	Additional    *Schema    // additionalProperties
	PropertyNames *Schema    // propertyNames

	Patterns           []Property // patternProperties, sorted by pattern
	MinProps, MaxProps *int       // minProperties, maxProperties

	Prefix                   []*Schema // prefixItems, or items with a list
	Items                    *Schema   // items, for those after Prefix
	MinItems, MaxItems       *int      // minItems, maxItems
	Unique                   bool      // uniqueItems
	Contains                 *Schema   // contains
	MinContains, MaxContains *int      // minContains, maxContains

	Minimum, Maximum                   *float64    // minimum, maximum
	ExclusiveMinimum, ExclusiveMaximum *float64    // exclusiveMinimum, exclusiveMaximum
	MultipleOf                         json.Number // multipleOf, or ""
	MinLength, MaxLength               *int        // minLength, maxLength, in code points
	Pattern                            string      // pattern, a regular expression of package regexp
	Format                             string      // format, an annotation

	AnyOf, OneOf, AllOf []*Schema // the combinators
	Not                 *Schema   // not
	If, Then, Else      *Schema   // if, then, else
	// Dependent are the schemas of objects that have a certain member: dependentSchemas,
	// dependentRequired and dependencies.
	Dependent []Property

	Default     json.RawMessage // default
	Description string          // description, markdown
	// Marks are the values of keywords to which the user gave a meaning, by name.
	Marks map[string]json.RawMessage
}

// Property is one entry of a properties object.
type Property struct {
	Name   string
	Schema *Schema
}

// Property returns the schema of the property called name, or nil.
func (s *Schema) Property(name string) *Schema {
	for _, p := range s.Properties {
		if p.Name == name {
			return p.Schema
		}
	}
	return nil
}

// Below lists the schemas directly inside of s, without that of a $ref. The list always has the same
// order.
func (s *Schema) Below() []*Schema {
	var out []*Schema
	for _, list := range [][]Property{s.Properties, s.Patterns, s.Dependent} {
		for _, p := range list {
			out = append(out, p.Schema)
		}
	}
	out = slices.Concat(out, s.Prefix, s.AnyOf, s.OneOf, s.AllOf)
	for _, sub := range [...]*Schema{s.Additional, s.PropertyNames, s.Items, s.Contains, s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			out = append(out, sub)
		}
	}
	return out
}

// Error is a fault in a schema, or a shape in it that the generator does not support.
type Error struct {
	File    string // name of the schema file
	Pointer string // RFC 6901 pointer of the node at fault
	Message string // the fault and its remedy
}

func (e *Error) Error() string { return fmt.Sprintf("%s#%s: %s", e.File, e.Pointer, e.Message) }

// Errorf returns an [*Error] at s.
func (s *Schema) Errorf(format string, args ...any) error {
	return &Error{File: cmp.Or(s.file, s.Doc.File), Pointer: s.Pointer, Message: fmt.Sprintf(format, args...)}
}

// Cause returns the text of an error of encoding/json for the message of an [*Error]. It does not
// name the Go type, which is of no use in a message about a file.
func Cause(err error) string {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if e.Field != "" {
			return fmt.Sprintf("member %s cannot be %s", e.Field, e.Value)
		}
		return "got " + e.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// ends fails if s refers back to itself without an object member or a list element between. Such a
// schema describes no value, and walking it would not end. Ended is false for the schemas on the
// path to s and true for those that are known to end.
func (s *Schema) ends(ended map[*Schema]bool) error {
	if done, seen := ended[s]; seen {
		if !done {
			return s.Errorf("the schema refers back to itself through $ref, allOf, anyOf, oneOf, not or if, so it describes no value; break the cycle")
		}
		return nil
	}
	ended[s] = false
	below := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	if s.Ref != "" {
		below = append(below, s.Doc.Defs[s.Ref])
	}
	for _, sub := range [...]*Schema{s.Not, s.If, s.Then, s.Else} {
		if sub != nil {
			below = append(below, sub)
		}
	}
	for _, d := range s.Dependent {
		below = append(below, d.Schema)
	}
	for _, sub := range below {
		if err := sub.ends(ended); err != nil {
			return err
		}
	}
	ended[s] = true
	return nil
}
