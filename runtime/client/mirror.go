package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/textproto"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// mirror is an argument of a tool that a client over HTTP repeats in a header field (MCP Streamable
// HTTP, "Custom Headers from Tool Parameters").
type mirror struct {
	header string   // the name of the field, in the canonical form of package http
	path   []string // names of the properties that lead to the argument
}

// mirrorsOf returns the mirrored arguments of a tool. It fails if an annotation of its schema is
// invalid.
func mirrorsOf(tool *mcp.Tool) ([]mirror, error) {
	text, err := codec.Marshal(&tool.InputSchema)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(text, []byte(annotation)) && bytes.IndexByte(text, '\\') < 0 {
		return nil, nil
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, err
	}
	w := annotations{seen: map[string]bool{}}
	err = w.walk(schema, nil, true)
	return w.found, err
}

// annotation is the keyword of a schema that names the header field of a property.
const annotation = "x-mcp-header"

// annotations collects the annotations of a schema.
type annotations struct {
	found []mirror
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
		if name, ok := s[annotation]; ok {
			if err := w.add(name, s["type"], path, reachable); err != nil {
				return err
			}
		}
		if properties, ok := s["properties"].(map[string]any); ok {
			for name, property := range properties {
				if err := w.walk(property, append(path[:len(path):len(path)], name), reachable); err != nil {
					return err
				}
			}
		}
		for _, keyword := range schemaKeywords {
			if err := w.walk(s[keyword], nil, false); err != nil {
				return err
			}
		}
		for _, keyword := range mapKeywords {
			named, _ := s[keyword].(map[string]any)
			for _, item := range named {
				if err := w.walk(item, nil, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add adds the annotation of a property.
func (w *annotations) add(name, kind any, path []string, reachable bool) error {
	text, ok := name.(string)
	switch {
	case !ok || !isToken(text):
		return fmt.Errorf("%s %q is not a token", annotation, fmt.Sprint(name))
	case !reachable || len(path) == 0:
		return fmt.Errorf("%s %q is not on a property that properties alone lead to", annotation, text)
	case w.seen[strings.ToLower(text)]:
		return fmt.Errorf("%s %q is not unique", annotation, text)
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("%s %q is on a property of type %v, want string, integer or boolean", annotation, text, kind)
	}
	w.seen[strings.ToLower(text)] = true
	w.found = append(w.found, mirror{textproto.CanonicalMIMEHeaderKey(modern.HeaderParam + text), path})
	return nil
}

// isToken reports whether name can be a part of the name of a header field (RFC 9110, "Tokens").
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}

// value returns the value of the header field for arguments. ok is false if they do not have the
// argument, or if it is null or not a primitive value.
func (m *mirror) value(arguments json.RawMessage) (text string, ok bool) {
	raw := arguments
	for _, name := range m.path {
		if raw, ok = codec.Member(raw, name); !ok {
			return "", false
		}
	}
	switch raw[0] {
	case '"':
		err := codec.ReadPart(raw, func(r *wire.Reader) { text = r.Text() })
		return modern.EncodeHeader(text), err == nil
	case '{', '[', 'n':
		return "", false
	case 't', 'f':
		return string(raw), true
	}
	if n, ok := codec.Number(raw).Int(); ok {
		return fmt.Sprint(n), true // not 42.0 or 4.2e1
	}
	return string(raw), true
}

// mirrors caches the mirrored arguments of tools. The zero value is ready to use.
type mirrors struct {
	mu    sync.Mutex
	known map[*mcp.Tool][]mirror
}

// clear drops the arguments of a replaced list of tools.
func (x *mirrors) clear() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known = nil
}

// of returns the mirrored arguments of a cached tool.
func (x *mirrors) of(tool *mcp.Tool) []mirror {
	x.mu.Lock()
	defer x.mu.Unlock()
	found, ok := x.known[tool]
	if !ok {
		found, _ = mirrorsOf(tool) // the list has no invalid tools
		if x.known == nil {
			x.known = map[*mcp.Tool][]mirror{}
		}
		x.known[tool] = found
	}
	return found
}

// mirrorsHeaders reports whether arguments are repeated in header fields.
func (c *Client) mirrorsHeaders() bool { return c.overHTTP && c.session.Modern() }

// withMirrors returns a context for a call with the header fields of its arguments. It knows them if
// the list of tools is cached.
func (c *Client) withMirrors(ctx context.Context, p *mcp.CallToolRequestParams) context.Context {
	if !c.mirrorsHeaders() {
		return ctx
	}
	tool := c.cachedTool(p.Name)
	if tool == nil {
		return ctx
	}
	var h map[string][]string
	for _, m := range c.mirrors.of(tool) {
		text, ok := m.value(p.Arguments)
		if !ok {
			continue
		}
		if h == nil {
			h = map[string][]string{}
		}
		h[m.header] = []string{text}
	}
	if h == nil {
		return ctx
	}
	return modern.WithParamHeaders(ctx, h)
}

// usableTools removes the tools whose schema a client over HTTP must reject (MCP Streamable HTTP,
// "Schema Extension").
func (c *Client) usableTools(tools []mcp.Tool) []mcp.Tool {
	if !c.mirrorsHeaders() {
		return tools
	}
	usable := tools[:0]
	for i := range tools {
		if _, err := mirrorsOf(&tools[i]); err != nil {
			c.log.Warn("invalid tool dropped", "tool", tools[i].Name, "error", err)
			continue
		}
		usable = append(usable, tools[i])
	}
	return usable
}
