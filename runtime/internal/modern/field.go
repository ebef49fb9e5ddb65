package modern

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Annotation is the keyword of an input schema that names the header field of a property.
const Annotation = "x-mcp-header"

// MaxInteger is the largest absolute value of an argument in a header field. Other software may read
// it as a float64.
const MaxInteger = 1<<53 - 1

// Field is an argument of a tool that clients repeat in a header field (MCP Streamable HTTP, "Custom
// Headers from Tool Parameters").
type Field struct {
	Header string   // the name of the field, in the canonical form of package http
	Path   []string // the names of the properties that lead to the argument
}

// Fields returns the fields of an input schema, sorted by path. It fails if an annotation is invalid.
func Fields(schema json.RawMessage) ([]Field, error) {
	if !bytes.Contains(schema, []byte(Annotation)) && bytes.IndexByte(schema, '\\') < 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	w := annotations{seen: map[string]bool{}}
	err := w.walk(root, nil, true)
	return w.found, err
}

// annotations collects the annotations of a schema.
type annotations struct {
	found []Field
	seen  map[string]bool // names in lower case
}

// Keywords whose value is a schema or a list of schemas, and keywords whose value maps names to
// schemas.
var (
	schemaKeywords = []string{
		"items", "additionalItems", "prefixItems", "contains", "unevaluatedItems", "additionalProperties", "unevaluatedProperties",
		"propertyNames", "not", "if", "then", "else", "allOf", "anyOf", "oneOf", "contentSchema",
	}
	mapKeywords = []string{"$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies"}
)

// walk visits a schema. It may have an annotation only if it is reachable, that is, if path leads
// from the root to it through properties.
func (w *annotations) walk(schema any, path []string, reachable bool) error {
	switch s := schema.(type) {
	case []any:
		for _, item := range s {
			if err := w.walk(item, nil, false); err != nil {
				return err
			}
		}
	case map[string]any:
		if name, ok := s[Annotation]; ok {
			if err := w.add(name, s, path, reachable); err != nil {
				return err
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if err := w.walk(properties[name], append(path[:len(path):len(path)], name), reachable); err != nil {
				return err
			}
		}
		for _, keyword := range schemaKeywords {
			if err := w.walk(s[keyword], nil, false); err != nil {
				return err
			}
		}
		for _, keyword := range mapKeywords {
			named, _ := s[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				if err := w.walk(named[name], nil, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add adds the annotation of a schema.
func (w *annotations) add(name any, schema map[string]any, path []string, reachable bool) error {
	text, ok := name.(string)
	kind := schema["type"]
	switch {
	case !ok || !IsToken(text):
		return fmt.Errorf("%s %q is not a token", Annotation, fmt.Sprint(name))
	case !reachable || len(path) == 0:
		return fmt.Errorf("%s %q is not on a property to which properties alone lead", Annotation, text)
	case w.seen[strings.ToLower(text)]:
		return fmt.Errorf("%s %q is not unique", Annotation, text)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s %q is on a property of type %v, want string, integer or boolean", Annotation, text, kind)
	}
	for _, keyword := range []string{"minimum", "maximum"} {
		if n, ok := schema[keyword].(json.Number); ok && kind == "integer" && !inRange(codec.Number(n)) {
			return fmt.Errorf("%s %q is on a property with %s %s, want at most ±%d", Annotation, text, keyword, n, MaxInteger)
		}
	}
	w.seen[strings.ToLower(text)] = true
	w.found = append(w.found, Field{textproto.CanonicalMIMEHeaderKey(HeaderParam + text), path})
	return nil
}

// inRange reports whether the absolute value of a number is at most MaxInteger.
func inRange(n codec.Number) bool {
	v, ok := n.Float()
	return ok && v >= -MaxInteger && v <= MaxInteger
}

// IsToken reports whether name can be a part of the name of a header field (RFC 9110, "Tokens").
func IsToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// Argument returns the JSON of the argument. ok is false if it is absent or null, or has the wrong
// type: it then has no header field.
func (f *Field) Argument(arguments json.RawMessage) (raw json.RawMessage, ok bool) {
	raw = arguments
	for _, name := range f.Path {
		if raw, ok = codec.Member(raw, name); !ok {
			return nil, false
		}
	}
	return raw, raw[0] != 'n' && raw[0] != '{' && raw[0] != '['
}

var (
	errFieldMissing = errors.New("the field is missing")
	errFieldTwice   = errors.New("there are several such fields")
	errNoArgument   = errors.New("the request has no such argument")
	errFieldDiffers = errors.New("the field differs from the argument")
)

// Check returns an error unless the header of a request has the value of the argument.
func (f *Field) Check(arguments json.RawMessage, header map[string][]string) error {
	raw, ok := f.Argument(arguments)
	values := header[f.Header]
	switch {
	case !ok && len(values) == 0:
		return nil
	case !ok:
		return errNoArgument
	case len(values) == 0:
		return errFieldMissing
	case len(values) > 1:
		return errFieldTwice
	}
	text, err := DecodeHeader(values[0])
	if err != nil {
		return err
	}
	same := false
	switch raw[0] {
	case '"':
		var argument string
		err := codec.ReadPart(raw, func(r *wire.Reader) { argument = r.Text() })
		same = err == nil && argument == text
	case 't', 'f':
		same = text == string(raw)
	default:
		same = sameNumber(text, string(raw))
	}
	if !same {
		return errFieldDiffers
	}
	return nil
}

// sameNumber reports whether a text is a number of the same value as another one in JSON.
func sameNumber(text, number string) bool {
	a, ok := codec.Number(text).Int()
	b, isInteger := codec.Number(number).Int()
	if isInteger {
		return ok && a == b
	}
	return text == number
}
