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
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Annotation is the keyword of an input schema that names the header field of a property.
const Annotation = "x-mcp-header"

// MaxInteger is the largest absolute value of an argument in a header field. Other software may
// read it as a float64.
const MaxInteger = 1<<53 - 1

// Field is an argument of a tool that clients repeat in a header field (MCP Streamable HTTP,
// "Custom Headers from Tool Parameters").
type Field struct {
	Header string   // the name of the field, in the canonical form of package http
	Path   []string // the names of the properties that lead to the argument
}

// Fields returns the fields of an input schema, sorted by path. It fails if an annotation is
// invalid, or if an annotated integer may have an absolute value of more than MaxInteger.
func Fields(schema json.RawMessage) ([]Field, error) {
	return fields(schema, &annotations{seen: map[string]bool{}, limited: true})
}

// ReceivedFields is [Fields] for a client. It admits integers of any size.
func ReceivedFields(schema json.RawMessage) ([]Field, error) {
	return fields(schema, &annotations{seen: map[string]bool{}})
}

func fields(schema json.RawMessage, w *annotations) ([]Field, error) {
	if !bytes.Contains(schema, []byte(Annotation)) && bytes.IndexByte(schema, '\\') < 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	err := w.walk(root, nil, true)
	return w.found, err
}

// annotations collects the annotations of a schema.
type annotations struct {
	found   []Field
	seen    map[string]bool // names in lower case
	limited bool            // the range of integers is checked
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
		return fmt.Errorf("%s %q is on a schema that is not reached through properties alone", Annotation, text)
	case w.seen[strings.ToLower(text)]:
		return fmt.Errorf("%s %q is not unique", Annotation, text)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s %q is on a property of type %v, want string, integer or boolean", Annotation, text, kind)
	}
	for _, keyword := range []string{"minimum", "maximum"} {
		if n, ok := schema[keyword].(json.Number); ok && w.limited && kind == "integer" && !inRange(codec.Number(n)) {
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

// FieldHeader returns the header fields for arguments of a tool, or nil if there are none. An
// argument that is absent, null or not a primitive value has no field.
func FieldHeader(fields []Field, arguments json.RawMessage) (h map[string][]string) {
	for i := range fields {
		text, ok := fields[i].value(arguments)
		if !ok {
			continue
		}
		if h == nil {
			h = map[string][]string{}
		}
		h[fields[i].Header] = []string{text}
	}
	return h
}

// value returns the value of the header field for arguments. ok is false if there is no such
// argument.
func (f *Field) value(arguments json.RawMessage) (text string, ok bool) {
	raw, ok := f.Argument(arguments)
	if !ok {
		return "", false
	}
	switch raw[0] {
	case '"':
		err := codec.ReadPart(raw, func(r *wire.Reader) { text = r.Text() })
		return EncodeHeader(text), err == nil
	case 't', 'f':
		return string(raw), true
	}
	if n, ok := codec.Number(raw).Int(); ok {
		return fmt.Sprint(n), true // not 42.0 or 4.2e1
	}
	return string(raw), true
}

// CheckFields returns an error unless the header of a request repeats the arguments of a tool (MCP
// Streamable HTTP, "Server Behavior for Custom Headers").
func CheckFields(fields []Field, arguments json.RawMessage, header map[string][]string) error {
	for i := range fields {
		f := &fields[i]
		if err := f.Check(arguments, header); err != nil {
			return &jsonrpc.Error{Code: CodeHeaderMismatch, Message: fmt.Sprintf("header mismatch: %s, which repeats argument %s: %v", f.Header, strings.Join(f.Path, "."), err)}
		}
	}
	return nil
}

var (
	errFieldMissing = errors.New("the field is missing")
	errFieldTwice   = errors.New("the field occurs more than once")
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

// sameNumber reports whether a text has the value of a JSON number.
func sameNumber(text, number string) bool {
	a, ok := codec.Number(text).Int()
	b, isInteger := codec.Number(number).Int()
	if isInteger {
		return ok && a == b
	}
	return text == number
}
