package toolschema

import (
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/pattern"
)

// node is a compiled subschema. It holds the keywords of all dialects in the form of 2020-12. A
// node is not changed after compilation.
type node struct {
	never    bool                // the schema false
	types    kinds               // 0 admits all
	names    []string            // of types
	choices  map[string]struct{} // the keys of the values of enum or const; nil admits all values
	chosen   kinds               // the kinds of these values
	refusal  jsonschema.ErrorKind
	format   *jsonschema.Format
	resource *resource // nil in a schema without dynamic references

	refs             []*node
	dynamic          *node // the target of $dynamicRef in the resource of the schema
	anchor           string
	recursive        *node // that of $recursiveRef
	not, condition   *node
	then, otherwise  *node
	allOf            []*node
	anyOf, oneOf     []*node
	required         []string
	minMembers       *int
	maxMembers       *int
	properties       map[string]*node
	patterns         []patternNode
	additional       *node
	memberNames      *node
	dependent        []dependency
	otherMembers     *node // unevaluatedProperties
	minItems         *int
	maxItems         *int
	unique           bool
	prefix           []*node
	items            *node // of the elements after prefix
	contains         *node
	minContains      *int
	maxContains      *int
	containsCounts   bool  // contains evaluates elements
	otherItems       *node // unevaluatedItems
	minLength        *int
	maxLength        *int
	pattern          *pattern.Pattern
	minimum, maximum *big.Rat
	above, below     *big.Rat // exclusive
	multipleOf       *big.Rat
}

// patternNode is an element of patternProperties.
type patternNode struct {
	pattern *pattern.Pattern
	value   *node
}

// dependency is the keywords for an object with the member name.
type dependency struct {
	name     string
	required []string
	schema   *node // nil for none
}

// resource is a schema with an address of its own. Dynamic references depend on the resources on
// the way to them.
type resource struct {
	anchors   map[string]*node
	recursive *node // the root of the resource, if it has $recursiveAnchor
}

// kinds is a set of kinds of values.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	isNumber
	isInteger // of type only: a number without a fraction
	isString
	isArray
	isObject
)

var kindNames = map[string]kinds{
	"null": isNull, "boolean": isBool, "number": isNumber, "integer": isInteger, "string": isString, "array": isArray, "object": isObject,
}

// builder converts schemas of the compiler to nodes.
type builder struct {
	nodes map[*jsonschema.Schema]*node
	at    func(*jsonschema.Schema) *resource // nil in a schema without dynamic references
}

// node returns the node of a schema, or nil for nil.
func (b *builder) node(s *jsonschema.Schema) *node {
	if s == nil {
		return nil
	}
	if n, ok := b.nodes[s]; ok {
		return n
	}
	n := &node{}
	b.nodes[s] = n
	if s.Bool != nil {
		n.never = !*s.Bool
		return n
	}
	n.resource = b.at(s)
	n.refs = b.list(s.Ref)
	if s.DraftVersion < 2019 && s.Ref != nil {
		return n // the other keywords do not count
	}
	if s.Types != nil {
		n.names = s.Types.ToStrings()
		for _, name := range n.names {
			n.types |= kindNames[name]
		}
	}
	b.choices(n, s)
	n.format = s.Format
	switch d := s.DynamicRef; {
	case d == nil:
	case d.Anchor != "" && d.Ref.DynamicAnchor == d.Anchor:
		n.dynamic, n.anchor = b.node(d.Ref), d.Anchor
	default:
		n.refs = append(n.refs, b.node(d.Ref))
	}
	switch target := s.RecursiveRef; {
	case target == nil:
	case target.RecursiveAnchor:
		n.recursive = b.node(target)
	default:
		n.refs = append(n.refs, b.node(target))
	}
	n.not, n.condition, n.then, n.otherwise = b.node(s.Not), b.node(s.If), b.node(s.Then), b.node(s.Else)
	n.allOf, n.anyOf, n.oneOf = b.list(s.AllOf...), b.list(s.AnyOf...), b.list(s.OneOf...)
	b.members(n, s)
	b.elements(n, s)
	n.minLength, n.maxLength = s.MinLength, s.MaxLength
	n.pattern, _ = s.Pattern.(*pattern.Pattern)
	n.minimum, n.maximum, n.above, n.below, n.multipleOf = s.Minimum, s.Maximum, s.ExclusiveMinimum, s.ExclusiveMaximum, s.MultipleOf
	return n
}

// list returns the nodes of the schemas that are not nil.
func (b *builder) list(schemas ...*jsonschema.Schema) (nodes []*node) {
	for _, s := range schemas {
		if s != nil {
			nodes = append(nodes, b.node(s))
		}
	}
	return nodes
}

// named returns the nodes of the schemas of a map.
func (b *builder) named(schemas map[string]*jsonschema.Schema) map[string]*node {
	nodes := make(map[string]*node, len(schemas))
	for name, s := range schemas {
		nodes[name] = b.node(s)
	}
	return nodes
}

// either returns the node of a keyword whose value is a bool or a schema.
func (b *builder) either(v any) *node {
	switch v := v.(type) {
	case bool:
		return &node{never: !v}
	case *jsonschema.Schema:
		return b.node(v)
	}
	return nil
}

func (b *builder) members(n *node, s *jsonschema.Schema) {
	n.required, n.minMembers, n.maxMembers = s.Required, s.MinProperties, s.MaxProperties
	n.properties, n.additional = b.named(s.Properties), b.either(s.AdditionalProperties)
	for p, sub := range s.PatternProperties {
		n.patterns = append(n.patterns, patternNode{p.(*pattern.Pattern), b.node(sub)})
	}
	n.memberNames, n.otherMembers = b.node(s.PropertyNames), b.node(s.UnevaluatedProperties)
	for name, v := range s.Dependencies {
		d := dependency{name: name}
		d.required, _ = v.([]string)
		if sub, ok := v.(*jsonschema.Schema); ok {
			d.schema = b.node(sub)
		}
		n.dependent = append(n.dependent, d)
	}
	for name, required := range s.DependentRequired {
		n.dependent = append(n.dependent, dependency{name, required, nil})
	}
	for name, sub := range s.DependentSchemas {
		n.dependent = append(n.dependent, dependency{name, nil, b.node(sub)})
	}
}

func (b *builder) elements(n *node, s *jsonschema.Schema) {
	n.minItems, n.maxItems, n.unique = s.MinItems, s.MaxItems, s.UniqueItems
	n.prefix, n.items = b.list(s.PrefixItems...), b.node(s.Items2020)
	switch items := s.Items.(type) { // before 2020-12
	case *jsonschema.Schema:
		n.items = b.node(items)
	case []*jsonschema.Schema:
		n.prefix, n.items = b.list(items...), b.either(s.AdditionalItems)
	}
	n.contains, n.minContains, n.maxContains = b.node(s.Contains), s.MinContains, s.MaxContains
	n.containsCounts = s.DraftVersion >= 2020
	n.otherItems = b.node(s.UnevaluatedItems)
}

// choices sets the values that the keywords enum and const admit.
func (b *builder) choices(n *node, s *jsonschema.Schema) {
	if s.Enum == nil && s.Const == nil {
		return
	}
	var values []any
	if s.Enum != nil {
		values, n.refusal = s.Enum.Values, &kind.Enum{Want: s.Enum.Values}
	}
	only := ""
	if s.Const != nil {
		only, n.refusal = key(*s.Const), &kind.Const{Want: *s.Const}
		if s.Enum == nil {
			values = []any{*s.Const}
		}
	}
	n.choices = make(map[string]struct{}, len(values))
	for _, v := range values {
		if k := key(v); s.Const == nil || k == only {
			n.choices[k] = struct{}{}
			n.chosen |= kindOf(v)
		}
	}
}

// resources returns the function at of a builder.
func (b *builder) resources(c *jsonschema.Compiler, doc any) {
	var roots, anchors []string // JSON pointers
	dynamic := false
	subschemas(doc, func(pointer string, object map[string]any) {
		id, _ := object["$id"].(string)
		if id, _, _ = strings.Cut(id, "#"); id != "" || pointer == "" {
			roots = append(roots, pointer)
		}
		if _, ok := object["$dynamicAnchor"]; ok {
			anchors = append(anchors, pointer)
		}
		dynamic = dynamic || object["$dynamicRef"] != nil || object["$recursiveRef"] != nil
	})
	if !dynamic {
		b.at = func(*jsonschema.Schema) *resource { return nil }
		return
	}
	compiled := func(pointer string) *jsonschema.Schema {
		s, _ := c.Compile(here + "#" + (&url.URL{Path: pointer}).EscapedPath())
		return s
	}
	known := map[string]*resource{}
	of := func(pointer string) *resource {
		for !slices.Contains(roots, pointer) {
			pointer = pointer[:max(strings.LastIndexByte(pointer, '/'), 0)]
		}
		r := known[pointer]
		if r == nil {
			r = &resource{anchors: map[string]*node{}}
			known[pointer] = r
			if s := compiled(pointer); s != nil && s.RecursiveAnchor {
				r.recursive = b.node(s)
			}
		}
		return r
	}
	b.at = func(s *jsonschema.Schema) *resource {
		_, fragment, _ := strings.Cut(s.Location, "#")
		pointer, _ := url.PathUnescape(fragment)
		return of(pointer)
	}
	for _, pointer := range anchors {
		if s := compiled(pointer); s != nil && s.DynamicAnchor != "" {
			of(pointer).anchors[s.DynamicAnchor] = b.node(s)
		}
	}
}

// subschemas calls f for each object of a schema that may be a subschema, with its JSON pointer.
func subschemas(doc any, f func(pointer string, object map[string]any)) {
	var visit func(v any, pointer string, names bool)
	visit = func(v any, pointer string, names bool) {
		switch v := v.(type) {
		case []any:
			for i, e := range v {
				visit(e, pointer+"/"+strconv.Itoa(i), false)
			}
		case map[string]any:
			if !names {
				f(pointer, v)
			}
			for name, e := range v {
				if names {
					visit(e, pointer+"/"+jsonedit.EscapeToken(name), false)
					continue
				}
				switch name {
				case "enum", "const", "default", "examples":
				case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
					visit(e, pointer+"/"+name, true)
				default:
					visit(e, pointer+"/"+jsonedit.EscapeToken(name), false)
				}
			}
		}
	}
	visit(doc, "", false)
}
