// Package load reads a JSON schema into positioned nodes.
//
// It is the first stage of the generator: bytes in, a [Document] out. It uses the schema model of
// go-jsonschema, which drops unknown keywords. Load therefore also walks the text, rejects every
// keyword that it does not support, and records the JSON pointer of each node for error messages.
package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/atombender/go-jsonschema/pkg/schemas"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Document is one schema file: the definitions of one revision.
type Document struct {
	Revision string             // label of the revision, such as "2025-11-25"
	File     string             // name of the file, for errors
	Defs     map[string]*Schema // definitions by name
}

// Names returns the names of all definitions, sorted.
func (d *Document) Names() []string { return slices.Sorted(maps.Keys(d.Defs)) }

// Schema is one node of a document. The zero value of every field means that the
// keyword is absent; a schema with no keyword at all admits every value.
type Schema struct {
	Doc     *Document // the document that holds the node
	Pointer string    // RFC 6901 pointer of the node in its file

	False bool   // the boolean schema false: admits nothing
	Ref   string // name of the definition that $ref points at

	Types []string          // type: one or more names; nil admits every type
	Const json.RawMessage   // const
	Enum  []json.RawMessage // enum

	Properties    []Property // properties, sorted by name; nil without the keyword, empty for {}
	Required      []string   // required, sorted
	Additional    *Schema    // additionalProperties
	PropertyNames *Schema    // propertyNames

	Items              *Schema // items
	MinItems, MaxItems *int    // minItems, maxItems

	Minimum, Maximum                   *float64 // minimum, maximum
	ExclusiveMinimum, ExclusiveMaximum *float64 // exclusiveMinimum, exclusiveMaximum
	MinLength, MaxLength               *int     // minLength, maxLength, in code points
	Format                             string   // format, an annotation

	AnyOf, OneOf, AllOf []*Schema // the combinators
	Not                 *Schema   // not

	Default     json.RawMessage // default
	Description string          // description, markdown
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

// Error is a fault in a schema, or a shape in it that the generator does not support.
type Error struct {
	File    string // name of the schema file
	Pointer string // RFC 6901 pointer of the node at fault
	Message string // the fault and its remedy
}

func (e *Error) Error() string { return fmt.Sprintf("%s#%s: %s", e.File, e.Pointer, e.Message) }

// Errorf returns an [*Error] at s.
func (s *Schema) Errorf(format string, args ...any) error {
	return &Error{File: s.Doc.File, Pointer: s.Pointer, Message: fmt.Sprintf(format, args...)}
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

// Parse parses src, the text of the schema in file, as the given revision.
func Parse(revision, file string, src []byte) (*Document, error) {
	src = plainCounts(src)
	doc := &Document{Revision: revision, File: file, Defs: map[string]*Schema{}}
	root := &Schema{Doc: doc}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(src, &top); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			before := src[:min(int(syntax.Offset), len(src))]
			return nil, root.Errorf("not JSON: line %d, column %d: %v",
				1+bytes.Count(before, []byte("\n")), len(before)-1-bytes.LastIndexByte(before, '\n'), err)
		}
		return nil, root.Errorf("not a JSON object")
	}
	model, err := schemas.FromJSONReader(bytes.NewReader(src))
	if err != nil {
		return nil, locate(doc, "", src, err)
	}
	home := ""
	for key := range top {
		switch key {
		case "$schema", "$id", "$comment", "title", "description":
		case "definitions", "$defs":
			if home != "" {
				return nil, root.Errorf("both definitions and $defs are present; keep one")
			}
			home = key
		default:
			return nil, root.Errorf("keyword %q at the top of a schema is not supported; the generator reads definitions only", key)
		}
	}
	if home == "" {
		return nil, root.Errorf("no definitions: neither definitions nor $defs is present")
	}
	var raws map[string]json.RawMessage
	if err := json.Unmarshal(top[home], &raws); err != nil {
		return nil, root.Errorf("%s is not an object: %v", home, err)
	}
	l := &loader{doc: doc, home: "#/" + home + "/"}
	for _, name := range slices.Sorted(maps.Keys(raws)) {
		if name == "" {
			return nil, root.Errorf("a definition in %s has an empty name; give it one", home)
		}
		s, err := l.schema("/"+home+"/"+jsonedit.EscapeToken(name), raws[name], model.Definitions[name])
		if err != nil {
			return nil, err
		}
		doc.Defs[name] = s
	}
	for _, s := range l.refs {
		token := s.Ref
		s.Ref = jsonedit.UnescapeToken(token)
		// A URI fragment has some characters percent-encoded (RFC 6901, section 6).
		if decoded, err := url.PathUnescape(token); err == nil && doc.Defs[s.Ref] == nil {
			s.Ref = jsonedit.UnescapeToken(decoded)
		}
		if doc.Defs[s.Ref] == nil {
			return nil, s.Errorf("$ref names the definition %q, which does not exist", s.Ref)
		}
	}
	ended := map[*Schema]bool{}
	for _, name := range doc.Names() {
		if err := doc.Defs[name].ends(ended); err != nil {
			return nil, err
		}
	}
	return doc, nil
}

var counts = regexp.MustCompile(`"(?:min|max)(?:Length|Items)"\s*:\s*(-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)`)

// plainCounts returns src with lengths and counts such as 1.0e1 rewritten as plain digits. Package
// schemas cannot read them in another notation.
func plainCounts(src []byte) []byte {
	return counts.ReplaceAllFunc(src, func(match []byte) []byte {
		at := bytes.LastIndexAny(match, ": \t\r\n") + 1
		v, err := strconv.ParseFloat(string(match[at:]), 64)
		if err != nil || v != math.Trunc(v) || math.Abs(v) >= 1<<53 {
			return match
		}
		return strconv.AppendFloat(match[:at:at], v, 'f', 0, 64)
	})
}

// ends fails if s refers back to itself without an object member or a list element between. Such a
// schema describes no value, and walking it would not end. Ended is false for the schemas on the
// path to s and true for those that are known to end.
func (s *Schema) ends(ended map[*Schema]bool) error {
	if done, seen := ended[s]; seen {
		if !done {
			return s.Errorf("the schema refers back to itself through $ref, allOf, anyOf, oneOf or not, so it describes no value; break the cycle")
		}
		return nil
	}
	ended[s] = false
	below := slices.Concat(s.AllOf, s.AnyOf, s.OneOf)
	if s.Ref != "" {
		below = append(below, s.Doc.Defs[s.Ref])
	}
	if s.Not != nil {
		below = append(below, s.Not)
	}
	for _, sub := range below {
		if err := sub.ends(ended); err != nil {
			return err
		}
	}
	ended[s] = true
	return nil
}

type loader struct {
	doc  *Document
	home string    // "#/$defs/" or "#/definitions/"
	refs []*Schema // nodes with a $ref, checked after all definitions are loaded
}

// schema converts one node; raw is its text and t the same node in the model.
func (l *loader) schema(pointer string, raw json.RawMessage, t *schemas.Type) (*Schema, error) {
	s := &Schema{Doc: l.doc, Pointer: pointer}
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return s, nil
	case "false":
		s.False = true
		return s, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil, s.Errorf("a schema must be an object or a boolean: %v", err)
	}
	if keys == nil {
		return nil, s.Errorf("a schema must be an object or a boolean, got null")
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := l.keyword(s, key, keys[key], t); err != nil {
			return nil, err
		}
	}
	if s.Ref != "" {
		l.refs = append(l.refs, s)
	}
	return s, nil
}

func (l *loader) keyword(s *Schema, key string, raw json.RawMessage, t *schemas.Type) (err error) {
	at := s.Pointer + "/" + jsonedit.EscapeToken(key)
	switch key {
	case "$schema", "$id", "$comment", "title":
	case "description":
		s.Description = t.Description
	case "default":
		s.Default = raw
	case "$ref":
		name, ok := strings.CutPrefix(t.Ref, l.home)
		if !ok {
			return s.Errorf("$ref %q leads out of %s; only definitions of the same file can be referred to", t.Ref, l.home)
		}
		s.Ref = name // decoded by Parse
	case "type":
		s.Types, err = l.types(s, raw, t)
	case "const":
		s.Const = raw
	case "enum":
		err = json.Unmarshal(raw, &s.Enum)
		if err == nil && len(s.Enum) == 0 {
			return s.Errorf("enum is empty, so it admits nothing; remove the keyword or name a value")
		}
	case "properties":
		var props map[string]json.RawMessage
		if err := json.Unmarshal(raw, &props); err != nil {
			return s.Errorf("properties: %v", err)
		}
		s.Properties = []Property{}
		for _, name := range slices.Sorted(maps.Keys(props)) {
			p, err := l.schema(at+"/"+jsonedit.EscapeToken(name), props[name], t.Properties[name])
			if err != nil {
				return err
			}
			s.Properties = append(s.Properties, Property{name, p})
		}
	case "required":
		s.Required = slices.Clone(t.Required)
		slices.Sort(s.Required)
	case "additionalProperties":
		s.Additional, err = l.schema(at, raw, t.AdditionalProperties)
	case "propertyNames":
		var names schemas.Type // the model has no such keyword
		if err := json.Unmarshal(raw, &names); err != nil {
			return s.Errorf("propertyNames: %v", err)
		}
		s.PropertyNames, err = l.schema(at, raw, &names)
	case "items":
		s.Items, err = l.schema(at, raw, t.Items)
	case "not":
		s.Not, err = l.schema(at, raw, t.Not)
	case "anyOf":
		s.AnyOf, err = l.list(s, at, raw, t.AnyOf)
	case "oneOf":
		s.OneOf, err = l.list(s, at, raw, t.OneOf)
	case "allOf":
		s.AllOf, err = l.list(s, at, raw, t.AllOf)
	case "minItems":
		err = json.Unmarshal(raw, &s.MinItems)
	case "maxItems":
		err = json.Unmarshal(raw, &s.MaxItems)
	case "minLength":
		err = json.Unmarshal(raw, &s.MinLength)
	case "maxLength":
		err = json.Unmarshal(raw, &s.MaxLength)
	case "minimum":
		s.Minimum = t.Minimum
	case "maximum":
		s.Maximum = t.Maximum
	case "exclusiveMinimum":
		err = json.Unmarshal(raw, &s.ExclusiveMinimum)
	case "exclusiveMaximum":
		err = json.Unmarshal(raw, &s.ExclusiveMaximum)
	case "format":
		s.Format = t.Format
	default:
		return &Error{File: s.Doc.File, Pointer: at, Message: fmt.Sprintf(
			"keyword %q is not supported; add it to internal/gen/load and codec/wire/jsonschema", key)}
	}
	if _, positioned := err.(*Error); err != nil && !positioned {
		return s.Errorf("%s: %v", key, err)
	}
	return err
}

// types returns the names in a type keyword. It is called only if the text has the keyword, because
// the model adds "object" where the schema omits it.
func (l *loader) types(s *Schema, raw json.RawMessage, t *schemas.Type) ([]string, error) {
	for _, name := range t.Type {
		switch name {
		case schemas.TypeNameString, schemas.TypeNameArray, schemas.TypeNameNumber, schemas.TypeNameInteger,
			schemas.TypeNameObject, schemas.TypeNameBoolean, schemas.TypeNameNull:
		default:
			return nil, s.Errorf("type %q is not one of JSON Schema's seven", name)
		}
	}
	if len(t.Type) == 0 {
		return nil, s.Errorf("type is empty, so it admits nothing; remove the keyword or name a type")
	}
	return slices.Clone([]string(t.Type)), nil
}

func (l *loader) list(s *Schema, at string, raw json.RawMessage, ts []*schemas.Type) ([]*Schema, error) {
	var raws []json.RawMessage
	if err := json.Unmarshal(raw, &raws); err != nil {
		return nil, err
	}
	if len(raws) == 0 {
		return nil, &Error{File: s.Doc.File, Pointer: at, Message: "the list is empty, so it admits nothing; remove the keyword or name a schema"}
	}
	out := make([]*Schema, len(raws))
	for i := range raws {
		n, err := l.schema(fmt.Sprintf("%s/%d", at, i), raws[i], ts[i])
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// locate returns an error for the schema raw at pointer, which the model rejects with cause. The
// error names the innermost place that the model rejects.
func locate(doc *Document, pointer string, raw json.RawMessage, cause error) error {
	s := &Schema{Doc: doc, Pointer: pointer}
	if text := string(bytes.TrimSpace(raw)); text == "true" || text == "false" {
		return s.Errorf("not a JSON schema: %v", cause)
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return s.Errorf("a schema must be an object or a boolean")
	}
	readable := func(raw json.RawMessage) bool { return json.Unmarshal(raw, new(schemas.Type)) == nil }
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		at := pointer + "/" + jsonedit.EscapeToken(key)
		switch key {
		case "items", "not", "additionalProperties", "propertyNames":
			if !readable(keys[key]) {
				return locate(doc, at, keys[key], cause)
			}
		case "properties", "definitions", "$defs":
			var named map[string]json.RawMessage
			_ = json.Unmarshal(keys[key], &named) // a value that is not an object is reported below
			for _, name := range slices.Sorted(maps.Keys(named)) {
				if !readable(named[name]) {
					return locate(doc, at+"/"+jsonedit.EscapeToken(name), named[name], cause)
				}
			}
		case "allOf", "anyOf", "oneOf":
			var list []json.RawMessage
			_ = json.Unmarshal(keys[key], &list)
			for i, sub := range list {
				if !readable(sub) {
					return locate(doc, fmt.Sprintf("%s/%d", at, i), sub, cause)
				}
			}
		}
		if alone, err := json.Marshal(map[string]json.RawMessage{key: keys[key]}); err == nil && !readable(alone) {
			s.Pointer = at
			return s.Errorf("%s is not what the keyword %s takes", keys[key], key)
		}
	}
	return s.Errorf("not a JSON schema: %v", cause)
}
