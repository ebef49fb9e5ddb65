package toolschema

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/pattern"
)

// maxAddress limits the bytes of a resolved $id or $ref. Without it, schemas within schemas could
// have addresses that are longer than the whole text.
const maxAddress = 4096

// compiler converts a schema to nodes. It first finds all subschemas, with their addresses, because
// a reference may lead to a later one. Then it compiles those that the root leads to.
type compiler struct {
	*vocabulary
	draft    draft
	patterns pattern.Set
	sources  []*source
	known    map[string]*source // by address
	nodes    int
	dynamic  bool // a reference depends on the way to it
	err      error
}

// source is a schema with an address of its own. References in it are relative to the address.
type source struct {
	address *url.URL
	root    *part
	anchors map[string]*part
	dynamic []string // the anchors from $dynamicAnchor
	scope   *resource
}

// part is a value in a schema.
type part struct {
	value  any
	up     *part // nil for the root
	token  string
	source *source // nil if the part is not known to be a subschema
	node   *node
	parts  map[string]*part
}

// at returns the member or the element that a token of a JSON pointer leads to, or nil.
func (p *part) at(token string) *part {
	if known := p.parts[token]; known != nil {
		return known
	}
	var v any
	switch outer := p.value.(type) {
	case map[string]any:
		member, ok := outer[token]
		if !ok {
			return nil
		}
		v = member
	case []any:
		i, err := strconv.Atoi(token)
		if err != nil || i < 0 || i >= len(outer) || strconv.Itoa(i) != token {
			return nil
		}
		v = outer[i]
	default:
		return nil
	}
	if p.parts == nil {
		p.parts = map[string]*part{}
	}
	inner := &part{value: v, up: p, token: token}
	p.parts[token] = inner
	return inner
}

// pointer returns the JSON pointer of the part.
func (p *part) pointer() string {
	var tokens []string
	for ; p.up != nil; p = p.up {
		tokens = append(tokens, "/"+jsonedit.EscapeToken(p.token))
	}
	slices.Reverse(tokens)
	return strings.Join(tokens, "")
}

// fail notes a fault of the schema at a keyword of a part. The first one counts.
func (c *compiler) fail(p *part, keyword, format string, args ...any) {
	if c.err == nil {
		at := p.pointer() + "/" + jsonedit.EscapeToken(keyword)
		c.err = errors.New(shorten("invalid schema: " + at + ": " + fmt.Sprintf(format, args...)))
	}
}

// compile compiles a document. Its dialect is that of the compiler.
func (c *compiler) compile(doc any) (*Schema, error) {
	c.known = map[string]*source{}
	root := &part{value: doc}
	c.register(root, c.source(root, &url.URL{}))
	n := c.node(root)
	if c.dynamic {
		c.anchors()
	}
	return &Schema{root: n, dynamic: c.dynamic, size: c.nodes}, cmp.Or(c.patterns.Limit(), c.err)
}

// source adds a source.
func (c *compiler) source(root *part, address *url.URL) *source {
	s := &source{address: address, root: root, anchors: map[string]*part{}, scope: &resource{anchors: map[string]*node{}}}
	c.sources = append(c.sources, s)
	c.known[address.String()] = s
	return s
}

// register finds the subschemas of a subschema in a source, and their addresses.
func (c *compiler) register(p *part, outer *source) {
	if p.source != nil || c.err != nil {
		return
	}
	p.source = outer
	object, ok := p.value.(map[string]any)
	if !ok {
		return
	}
	if c.draft >= 2019 || object["$ref"] == nil { // in earlier drafts, nothing counts beside $ref
		c.address(p, object)
	}
	c.dynamic = c.dynamic || c.draft >= 2019 && (object["$dynamicRef"] != nil || object["$recursiveRef"] != nil)
	for _, name := range c.subschemas {
		if _, ok := object[name]; !ok {
			continue
		}
		sub := p.at(name)
		switch v := sub.value.(type) {
		case []any:
			for i := range v {
				c.register(sub.at(strconv.Itoa(i)), p.source)
			}
		case map[string]any:
			if s := c.shapes[name]; s != namedSchemas && s != schemasOrNames {
				c.register(sub, p.source)
				break
			}
			for _, name := range slices.Sorted(maps.Keys(v)) {
				c.register(sub.at(name), p.source)
			}
		default:
			c.register(sub, p.source)
		}
	}
}

// address adds the address and the anchors of a subschema.
func (c *compiler) address(p *part, object map[string]any) {
	id := "$id"
	if c.draft == 4 {
		id = "id"
	}
	text, _ := object[id].(string)
	address, anchor, _ := strings.Cut(text, "#")
	if address != "" {
		if dialect, ok := object["$schema"].(string); ok && draftOf(dialect) != c.draft {
			c.fail(p, "$schema", "a subschema cannot have a dialect of its own")
		}
		absolute, err := p.source.join(address)
		if err != nil {
			c.fail(p, id, "%v", err)
			return
		}
		if known := c.known[absolute.String()]; known != nil && known.root != p {
			c.fail(p, id, "%q is also the address of another schema", text)
			return
		}
		p.source = c.source(p, absolute)
	}
	add := func(keyword, anchor string) {
		known := p.source.anchors[anchor]
		if known != nil && known != p {
			c.fail(p, keyword, "%q is also an anchor of another schema", anchor)
		}
		p.source.anchors[anchor] = p
	}
	if c.draft < 2019 {
		if anchor, err := url.PathUnescape(anchor); err != nil {
			c.fail(p, id, "%v", err)
		} else if anchor != "" && anchor[0] != '/' {
			add(id, anchor)
		}
		return
	}
	if anchor, ok := object["$anchor"].(string); ok {
		add("$anchor", anchor)
	}
	if anchor, ok := object["$dynamicAnchor"].(string); ok && c.draft >= 2020 {
		add("$dynamicAnchor", anchor)
		p.source.dynamic = append(p.source.dynamic, anchor)
	}
}

// join resolves an address in a source, without its fragment.
func (s *source) join(text string) (*url.URL, error) {
	relative, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	absolute := s.address.ResolveReference(relative)
	absolute.Fragment, absolute.RawFragment = "", ""
	if n := len(absolute.String()); n > maxAddress {
		return nil, fmt.Errorf("the address has %d bytes, more than %d", n, maxAddress)
	}
	return absolute, nil
}

// target returns the part that a reference leads to, and its fragment. It returns nil after a
// failure.
func (c *compiler) target(p *part, keyword, ref string) (target *part, fragment string) {
	text, fragment, _ := strings.Cut(ref, "#")
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		c.fail(p, keyword, "%v", err)
		return nil, ""
	}
	s := p.source
	if text != "" {
		absolute, err := s.join(text)
		if err != nil {
			c.fail(p, keyword, "%v", err)
			return nil, ""
		}
		if s = c.load(absolute); s == nil {
			c.fail(p, keyword, "cannot load %q: references to other schemas are not supported", ref)
			return nil, ""
		}
	}
	switch {
	case fragment == "":
		target = s.root
	case fragment[0] == '/':
		target = s.root
		for token := range strings.SplitSeq(fragment[1:], "/") {
			if target = target.at(jsonedit.UnescapeToken(token)); target == nil {
				c.fail(p, keyword, "%q does not exist", ref)
				return nil, ""
			}
		}
	default:
		if target = s.anchors[fragment]; target == nil {
			c.fail(p, keyword, "%q does not exist", ref)
			return nil, ""
		}
	}
	if target.source == nil { // where no keyword has a schema
		if faults := c.faultsOf(target.value); faults != "" {
			c.fail(p, keyword, "%q is not a schema: %s", ref, faults)
			return nil, ""
		}
		around := target
		for around.source == nil {
			around = around.up
		}
		c.register(target, around.source)
	}
	return target, fragment
}

// load returns the source with an address, or nil. The schema of a dialect has an address, too.
func (c *compiler) load(address *url.URL) *source {
	text := address.String()
	if s := c.known[text]; s != nil {
		return s
	}
	d := draftOf(text)
	if d == 0 {
		return nil
	}
	root := &part{value: vocabularyOf(d).meta}
	s := c.source(root, address)
	c.register(root, s)
	return s
}

// anchors sets the targets of dynamic references in all resources.
func (c *compiler) anchors() {
	for i := 0; i < len(c.sources); i++ { // compilation may add some
		s := c.sources[i]
		for _, anchor := range s.dynamic {
			s.scope.anchors[anchor] = c.node(s.anchors[anchor])
		}
		if object, ok := s.root.value.(map[string]any); ok && object["$recursiveAnchor"] == true {
			s.scope.recursive = c.node(s.root)
		}
	}
}

// faultsOf returns why a value is not a schema, or "".
func (c *compiler) faultsOf(v any) string {
	list, err := c.schemas().evaluate(context.Background(), v, maxBytes)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(describe(list), "\n", "; ")
}

// object is a schema that is an object, with the keywords of the dialect.
type object struct {
	c       *compiler
	p       *part
	members map[string]any
}

// get returns the value of a keyword, or nil.
func (o object) get(name string) any {
	if _, ok := o.c.shapes[name]; !ok {
		return nil
	}
	return o.members[name]
}

// node returns the node of a part.
func (c *compiler) node(p *part) *node {
	if p.node != nil {
		return p.node
	}
	n := &node{}
	p.node = n
	c.nodes++
	members, ok := p.value.(map[string]any)
	if c.err != nil {
		return n // parts may be unregistered
	}
	if !ok {
		n.never = p.value == false
		return n
	}
	n.resource = p.source.scope
	o := object{c, p, members}
	o.references(n)
	if c.draft < 2019 && members["$ref"] != nil {
		return n
	}
	for _, name := range stringsOf(o.get("type")) {
		n.names = append(n.names, name)
		n.types |= kindNames[name]
	}
	o.choices(n)
	if name, ok := o.get("format").(string); ok && c.draft < 2019 { // since then, an annotation
		if is := formats[name]; is != nil {
			n.format = &format{name, is}
		}
	}
	n.not, n.condition = o.sub("not"), o.sub("if")
	if n.condition != nil {
		n.then, n.otherwise = o.sub("then"), o.sub("else")
	}
	n.allOf, n.anyOf, n.oneOf = o.list("allOf"), o.list("anyOf"), o.list("oneOf")
	o.ofObjects(n)
	o.ofArrays(n)
	n.minLength, n.maxLength = o.count("minLength"), o.count("maxLength")
	if text, ok := o.get("pattern").(string); ok {
		n.pattern = o.pattern("pattern", text)
	}
	o.ofNumbers(n)
	return n
}

func (o object) references(n *node) {
	c := o.c
	if ref, ok := o.get("$ref").(string); ok {
		if target, _ := c.target(o.p, "$ref", ref); target != nil {
			n.refs = append(n.refs, c.node(target))
		}
	}
	if ref, ok := o.get("$dynamicRef").(string); ok {
		if target, anchor := c.target(o.p, "$dynamicRef", ref); target != nil {
			object, _ := target.value.(map[string]any)
			if anchor != "" && object["$dynamicAnchor"] == anchor {
				n.dynamic, n.anchor = c.node(target), anchor
			} else {
				n.refs = append(n.refs, c.node(target))
			}
		}
	}
	if ref, ok := o.get("$recursiveRef").(string); ok {
		if target, _ := c.target(o.p, "$recursiveRef", ref); target != nil {
			object, _ := target.value.(map[string]any)
			if object["$recursiveAnchor"] == true {
				n.recursive = c.node(target)
			} else {
				n.refs = append(n.refs, c.node(target))
			}
		}
	}
}

// sub returns the node of a keyword whose value is a schema, or nil.
func (o object) sub(name string) *node {
	if o.get(name) == nil {
		return nil
	}
	return o.c.node(o.p.at(name))
}

// list returns the nodes of a keyword whose value is a list of schemas.
func (o object) list(name string) (nodes []*node) {
	elements, _ := o.get(name).([]any)
	for i := range elements {
		nodes = append(nodes, o.c.node(o.p.at(name).at(strconv.Itoa(i))))
	}
	return nodes
}

// named returns the nodes of a keyword whose value is an object of schemas.
func (o object) named(name string) map[string]*node {
	members, ok := o.get(name).(map[string]any)
	if !ok {
		return nil
	}
	nodes := make(map[string]*node, len(members))
	for _, member := range slices.Sorted(maps.Keys(members)) {
		nodes[member] = o.c.node(o.p.at(name).at(member))
	}
	return nodes
}

func (o object) ofObjects(n *node) {
	n.required = stringsOf(o.get("required"))
	n.minMembers, n.maxMembers = o.count("minProperties"), o.count("maxProperties")
	n.properties, n.additional = o.named("properties"), o.sub("additionalProperties")
	patterns := o.named("patternProperties")
	for _, text := range slices.Sorted(maps.Keys(patterns)) {
		n.patterns = append(n.patterns, patternNode{o.pattern("patternProperties", text), patterns[text]})
	}
	n.memberNames, n.otherMembers = o.sub("propertyNames"), o.sub("unevaluatedProperties")
	for _, keyword := range []string{"dependencies", "dependentRequired", "dependentSchemas"} {
		members, _ := o.get(keyword).(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if list, ok := members[name].([]any); ok {
				n.dependent = append(n.dependent, dependency{name, stringsOf(list), nil})
			} else {
				n.dependent = append(n.dependent, dependency{name, nil, o.c.node(o.p.at(keyword).at(name))})
			}
		}
	}
}

func (o object) ofArrays(n *node) {
	n.minItems, n.maxItems, n.unique = o.count("minItems"), o.count("maxItems"), o.get("uniqueItems") == true
	if _, ok := o.get("items").([]any); ok { // before 2020-12
		n.prefix, n.items = o.list("items"), o.sub("additionalItems")
	} else {
		n.prefix, n.items = o.list("prefixItems"), o.sub("items")
	}
	n.contains, n.minContains, n.maxContains = o.sub("contains"), o.count("minContains"), o.count("maxContains")
	n.containsCounts = o.c.draft >= 2020
	n.otherItems = o.sub("unevaluatedItems")
}

func (o object) ofNumbers(n *node) {
	n.minimum, n.maximum, n.multipleOf = o.bound("minimum"), o.bound("maximum"), o.bound("multipleOf")
	n.above, n.below = o.bound("exclusiveMinimum"), o.bound("exclusiveMaximum")
	if o.get("exclusiveMinimum") == true { // in draft 4
		n.minimum, n.above = nil, n.minimum
	}
	if o.get("exclusiveMaximum") == true {
		n.maximum, n.below = nil, n.maximum
	}
}

// choices sets the values that the keywords enum and const admit.
func (o object) choices(n *node) {
	list, isEnum := o.get("enum").([]any)
	only, isConst := o.members["const"]
	isConst = isConst && o.c.draft >= 6
	if !isEnum && !isConst {
		return
	}
	n.keyword, n.wanted = "enum", list
	if isConst {
		n.keyword, n.wanted = "const", []any{only}
		if !isEnum {
			list = n.wanted
		}
	}
	n.choices = make(map[string]struct{}, len(list))
	for _, v := range list {
		if k := key(v); !isConst || k == key(only) {
			n.choices[k] = struct{}{}
			n.chosen |= kindOf(v)
		}
	}
}

func (o object) pattern(keyword, text string) *pattern.Pattern {
	p, err := o.c.patterns.Compile(text)
	if err != nil {
		o.c.fail(o.p, keyword, "%v", err)
	}
	return p
}

// count returns the value of a keyword that limits a number of something, or nil.
func (o object) count(name string) *int {
	bound := o.bound(name)
	if bound == nil {
		return nil
	}
	n := math.MaxInt
	if i := bound.Num(); i.IsInt64() && i.Int64() < math.MaxInt {
		n = int(i.Int64())
	}
	return &n
}

// bound returns the value of a keyword that is a number, or nil.
func (o object) bound(name string) *bound {
	text, ok := o.get(name).(json.Number)
	if !ok {
		return nil
	}
	r, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return nil
	}
	return &bound{r, text}
}

// stringsOf returns the strings of a string or a list.
func stringsOf(v any) (list []string) {
	elements, ok := v.([]any)
	if !ok {
		elements = []any{v}
	}
	for _, e := range elements {
		if text, ok := e.(string); ok {
			list = append(list, text)
		}
	}
	return list
}
