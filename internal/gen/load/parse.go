package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Options configures [Read]. The zero value reads a file that refers to no other.
type Options struct {
	// Open returns the text of another file that a $ref leads to. The name is a path relative to
	// the folder of the first file's name, or an address. If Open is nil, such a $ref is an error.
	Open func(name string) ([]byte, error)
	// Ignore has the keywords that have no effect, against the table.
	Ignore []string
	// Marks has the keywords whose values are in [Schema.Marks].
	Marks []string
	// Strict makes a keyword that JSON Schema does not have an error.
	Strict bool
}

// Parse is [Read] without options.
func Parse(revision, file string, src []byte) (*Document, error) {
	return Read(revision, file, src, Options{})
}

// Read parses src, the text of the schema in file, as the given revision.
func Read(revision, file string, src []byte, opts Options) (*Document, error) {
	doc := &Document{Revision: revision, File: file, Defs: map[string]*Schema{}, Ignored: map[string]int{}}
	l := &loader{doc: doc, opts: opts, sources: map[string]*source{}}
	main, err := l.source(file, &url.URL{Path: path.Base(file)}, src)
	if err != nil {
		return nil, err
	}
	root := &Schema{Doc: doc}
	for _, home := range []string{"definitions", "$defs"} {
		raw, ok := main.top[home]
		if !ok {
			continue
		}
		var named map[string]json.RawMessage
		if err := json.Unmarshal(raw, &named); err != nil {
			return nil, root.Errorf("%s is not an object: %v", home, err)
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			pointer := "/" + home + "/" + jsonedit.EscapeToken(name)
			switch {
			case name == "":
				return nil, root.Errorf("a definition in %s has an empty name; give it one", home)
			case l.taken(name):
				return nil, root.Errorf("definitions and $defs both have the name %q; rename one of them", name)
			}
			l.add(place{main, pointer}, name)
		}
	}
	if l.limits(main.top) {
		l.add(place{main, ""}, l.free(rootName(main.top)))
	}
	if len(l.pending) == 0 {
		return nil, root.Errorf("no definitions: neither definitions nor $defs is present, and the schema at the top limits nothing")
	}
	for len(l.pending) > 0 {
		p := l.pending[0]
		l.pending = l.pending[1:]
		s, err := l.schema(p.place, p.raw, p.scope)
		if err != nil {
			return nil, err
		}
		doc.Defs[p.name] = s
		refs := l.refs
		l.refs = nil
		for _, r := range refs {
			if err := l.refer(r); err != nil {
				return nil, err
			}
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

// loader reads one document, which may have several files.
type loader struct {
	doc     *Document
	opts    Options
	sources map[string]*source // by address, without fragment
	names   map[place]string   // the definitions, by place
	owners  map[string]bool    // names of the definitions
	pending []definition       // found and not yet read
	refs    []reference        // of the definition being read
}

// source is one file.
type source struct {
	file    string
	text    json.RawMessage
	top     map[string]json.RawMessage
	address string // without fragment
	old     bool   // its draft ignores keywords beside $ref
	// anchors and ids hold the pointers of schemas by address.
	anchors, ids map[string]string
	nodes        map[string]node // those that find has passed, by pointer
}

// node is an object or an array of a file. Both are nil for other values.
type node struct {
	object map[string]json.RawMessage
	list   []json.RawMessage
}

// place is a schema in a file.
type place struct {
	source  *source
	pointer string
}

// scope is what a schema inherits from the schemas around it.
type scope struct {
	base  *url.URL
	local []string // pointers of the enclosing schemas that are documents of their own, innermost last
}

type definition struct {
	place
	name  string
	raw   json.RawMessage
	scope scope
}

// reference is a $ref whose target is not known yet.
type reference struct {
	schema *Schema
	place  place
	scope  scope
	text   string
}

// source reads a file and finds the addresses in it.
func (l *loader) source(file string, address *url.URL, text []byte) (*source, error) {
	s := &source{file: file, text: text, anchors: map[string]string{}, ids: map[string]string{}, nodes: map[string]node{}}
	fault := func(format string, args ...any) error {
		return &Error{File: file, Message: fmt.Sprintf(format, args...)}
	}
	if err := json.Unmarshal(text, &s.top); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			before := text[:min(int(syntax.Offset), len(text))]
			return nil, fault("not JSON: line %d, column %d: %v",
				1+bytes.Count(before, []byte("\n")), len(before)-1-bytes.LastIndexByte(before, '\n'), err)
		}
		return nil, fault("not a JSON object")
	}
	if s.top == nil {
		return nil, fault("not a JSON object")
	}
	draft := textOf(s.top["$schema"])
	s.old = strings.Contains(draft, "draft-04") || strings.Contains(draft, "draft-06") || strings.Contains(draft, "draft-07")
	s.address = withoutFragment(address)
	s.ids[s.address] = ""
	l.sources[s.address] = s
	s.index(s.top, "", address)
	for id := range s.ids {
		l.sources[id] = s
	}
	return s, nil
}

// resolve returns the address that text stands for in a file with the address base. Relative paths
// stay relative, so that they may lead to the folders above.
func resolve(base *url.URL, text string) (*url.URL, error) {
	ref, err := url.Parse(text)
	if err != nil || base.Scheme != "" || ref.Scheme != "" || ref.Host != "" {
		if err != nil {
			return nil, err
		}
		return base.Parse(text)
	}
	switch {
	case ref.Path == "":
		ref.Path = base.Path
	case !path.IsAbs(ref.Path):
		ref.Path = path.Join(path.Dir(base.Path), ref.Path)
	}
	return ref, nil
}

func withoutFragment(u *url.URL) string {
	v := *u
	v.Fragment, v.RawFragment = "", ""
	return v.String()
}

func textOf(raw json.RawMessage) string {
	var text string
	_ = json.Unmarshal(raw, &text) // anything else is no text
	return text
}

// id returns the address that a schema gives itself, or "".
func id(keys map[string]json.RawMessage) string {
	if text := textOf(keys["$id"]); text != "" {
		return text
	}
	return textOf(keys["id"])
}

// index records the addresses of the schema with the given keywords and of those inside of it.
func (s *source) index(keys map[string]json.RawMessage, pointer string, base *url.URL) {
	if text := id(keys); text != "" {
		if u, err := resolve(base, text); err == nil {
			if u.Fragment != "" {
				s.anchors[u.String()] = pointer // drafts until 7 write an anchor so
			} else {
				base = u
				s.ids[withoutFragment(u)] = pointer
			}
		}
	}
	for _, key := range []string{"$anchor", "$dynamicAnchor"} {
		if name := textOf(keys[key]); name != "" {
			s.anchors[withoutFragment(base)+"#"+name] = pointer
		}
	}
	inside := func(raw json.RawMessage, pointer string) {
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) == nil {
			s.index(keys, pointer, base)
		}
	}
	for key, raw := range keys {
		at := pointer + "/" + jsonedit.EscapeToken(key)
		switch key {
		case "properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies":
			var named map[string]json.RawMessage
			_ = json.Unmarshal(raw, &named) // what is no object is reported when it is read
			for name, sub := range named {
				inside(sub, at+"/"+jsonedit.EscapeToken(name))
			}
		case "items", "additionalItems", "prefixItems", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
			"allOf", "anyOf", "oneOf", "not", "if", "then", "else":
			var list []json.RawMessage
			if json.Unmarshal(raw, &list) != nil {
				inside(raw, at)
			}
			for i, sub := range list {
				inside(sub, at+"/"+strconv.Itoa(i))
			}
		}
	}
}

// find returns the text at a pointer and the scope of the schema there.
func (s *source) find(pointer string) (json.RawMessage, scope, bool) {
	base, _ := url.Parse(s.address)
	sc := scope{base: base}
	raw, at := s.text, ""
	for token := range strings.SplitSeq(pointer, "/") {
		if at != "" || token != "" { // not before the first slash
			around := s.node(at, raw)
			at += "/" + token
			var ok bool
			if raw, ok = around.object[jsonedit.UnescapeToken(token)]; !ok {
				i, err := strconv.Atoi(token)
				if err != nil || i < 0 || i >= len(around.list) {
					return nil, sc, false
				}
				raw = around.list[i]
			}
		}
		if at != pointer { // the schema itself enters its scope
			sc = sc.enter(s.node(at, raw).object, at)
		}
	}
	return raw, sc, true
}

// node returns the value raw at a pointer. Each is parsed once, because all definitions of a file have
// the same values around them.
func (s *source) node(pointer string, raw json.RawMessage) node {
	n, ok := s.nodes[pointer]
	if !ok {
		if json.Unmarshal(raw, &n.object) != nil {
			_ = json.Unmarshal(raw, &n.list)
		}
		s.nodes[pointer] = n
	}
	return n
}

// enter returns the scope inside of a schema.
func (sc scope) enter(keys map[string]json.RawMessage, pointer string) scope {
	if text := id(keys); text != "" {
		if u, err := resolve(sc.base, text); err == nil && u.Fragment == "" {
			sc.base = u
		}
	}
	if textOf(keys["$schema"]) != "" && pointer != "" {
		sc.local = append(slices.Clip(sc.local), pointer)
	}
	return sc
}

// rootName returns the name of the schema at the top of a file: its title, if that is short.
func rootName(top map[string]json.RawMessage) string {
	words := strings.Fields(textOf(top["title"]))
	name := ""
	for _, word := range words {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	if len(words) > 4 || !regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`).MatchString(name) {
		return "Root"
	}
	return name
}

// limits reports whether the schema at the top of a file is worth a definition.
func (l *loader) limits(top map[string]json.RawMessage) bool {
	for key, raw := range top {
		switch k := keywords[key]; {
		case k == nil, k.Effect == Ignored, slices.Contains(l.opts.Ignore, key):
		case key == "type" && textOf(raw) == "object":
			if len(top["definitions"])+len(top["$defs"]) == 0 {
				return true
			}
		case slices.Contains([]string{"$schema", "$id", "id", "$ref", "title", "description", "default", "definitions", "$defs",
			"$anchor", "$dynamicAnchor", "$recursiveAnchor"}, key):
		default:
			return true
		}
	}
	return false
}

func (l *loader) taken(name string) bool { return l.owners[name] }

// free returns name, or a similar one that no definition has.
func (l *loader) free(name string) string {
	for i, other := 2, name; ; i++ {
		if !l.taken(other) {
			return other
		}
		other = name + strconv.Itoa(i)
	}
}

// add makes a definition of the schema at p, which exists.
func (l *loader) add(p place, name string) {
	if l.names == nil {
		l.names, l.owners = map[place]string{}, map[string]bool{}
	}
	l.names[p], l.owners[name] = name, true
	raw, sc, _ := p.source.find(p.pointer)
	l.pending = append(l.pending, definition{p, name, raw, sc})
}

// refer finds the definition that r refers to, or makes one.
func (l *loader) refer(r reference) error {
	u, err := resolve(r.scope.base, r.text)
	if err != nil {
		return r.schema.Errorf("$ref %q is not an address: %v", r.text, err)
	}
	address := withoutFragment(u)
	s := l.sources[address]
	if s == nil {
		if isMeta(address) {
			// The schema of schemas, whose values are any objects and booleans.
			r.schema.Ref = ""
			r.schema.Types = []string{"boolean", "object"}
			l.note(r.schema, "a schema in place of %s is only checked to be an object or a boolean", r.text)
			return nil
		}
		if s, err = l.open(r, u); err != nil {
			return err
		}
	}
	// A relative reference into a schema with an $id starts there.
	target := place{s, s.ids[address]}
	switch fragment := u.Fragment; {
	case strings.HasPrefix(fragment, "/"):
		target.pointer += fragment
	case fragment != "":
		at, ok := s.anchors[address+"#"+fragment]
		if !ok {
			return r.schema.Errorf("$ref %q: there is no anchor %q in %s", r.text, fragment, s.file)
		}
		target.pointer = at
	}
	if _, _, ok := s.find(target.pointer); !ok {
		// Some generators put a schema with a $schema of its own and with references to its own
		// definitions into another one.
		for _, local := range slices.Backward(r.scope.local) {
			if _, _, ok = s.find(local + u.Fragment); ok && s == r.place.source {
				target.pointer = local + u.Fragment
				break
			}
		}
		if !ok {
			name := jsonedit.UnescapeToken(target.pointer[strings.LastIndexByte(target.pointer, '/')+1:])
			return r.schema.Errorf("$ref names the definition %q, which does not exist", name)
		}
	}
	if l.names[target] == "" {
		l.add(target, l.free(l.nameOf(target)))
	}
	r.schema.Ref = l.names[target]
	return nil
}

// note records what a reader of the output should know about s.
func (l *loader) note(s *Schema, format string, args ...any) {
	l.doc.Notes = append(l.doc.Notes, s.Errorf(format, args...).(*Error))
}

// nameOf returns a name for the schema at p, which is not in the definitions of the first file.
func (l *loader) nameOf(p place) string {
	tokens := strings.Split(p.pointer, "/")
	last := jsonedit.UnescapeToken(tokens[len(tokens)-1])
	before := ""
	if len(tokens) > 1 {
		before = tokens[len(tokens)-2]
	}
	switch {
	case p.pointer == "":
		if name := rootName(p.source.top); name != "Root" || p.source.file == l.doc.File {
			return name
		}
		base := path.Base(p.source.file)
		return strings.TrimSuffix(strings.TrimSuffix(base, path.Ext(base)), ".schema")
	case (before == "definitions" || before == "$defs") && len(tokens) == 3:
		return last
	}
	// Name the rest after the innermost definition around it.
	for i := len(tokens) - 1; i > 0; i-- {
		outer := place{p.source, strings.Join(tokens[:i], "/")}
		if name := l.names[outer]; name != "" {
			return name + "." + last
		}
	}
	return last
}

// isMeta reports whether an address is that of a schema of schemas.
func isMeta(address string) bool {
	return strings.HasPrefix(address, "http://json-schema.org/") || strings.HasPrefix(address, "https://json-schema.org/draft/") ||
		strings.TrimSuffix(address, "/") == "https://meta.json-schema.tools"
}

// open reads the file with the address u.
func (l *loader) open(r reference, u *url.URL) (*source, error) {
	name := withoutFragment(u)
	if u.Scheme == "" {
		name = u.Path
	}
	if l.opts.Open == nil {
		return nil, r.schema.Errorf("$ref %q leads to another file, %s, and only this one is given", r.text, name)
	}
	text, err := l.opts.Open(name)
	if err != nil {
		return nil, r.schema.Errorf("$ref %q: %v", r.text, err)
	}
	return l.source(name, u, text)
}

// schema reads the schema with the text raw at p.
func (l *loader) schema(p place, raw json.RawMessage, sc scope) (*Schema, error) {
	s := &Schema{Doc: l.doc, Pointer: p.pointer}
	if p.source.file != l.doc.File {
		s.file = p.source.file
	}
	switch string(bytes.TrimSpace(raw)) {
	case "true":
		return s, nil
	case "false":
		s.False = true
		return s, nil
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil, s.Errorf("a schema must be an object or a boolean")
	}
	if keys == nil {
		return nil, s.Errorf("a schema must be an object or a boolean, got null")
	}
	r := &reader{l, s, p, sc.enter(keys, p.pointer), keys}
	if keys["$ref"] != nil && p.source.old && p.pointer != "" {
		for key := range keys {
			if key != "$ref" && key != "description" && key != "default" {
				delete(keys, key)
				l.doc.Ignored[key]++
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if p.pointer == "" && (key == "definitions" || key == "$defs") {
			continue
		}
		if err := r.keyword(key, keys[key]); err != nil {
			return nil, err
		}
	}
	return s, r.unevaluated()
}

// reader reads one schema.
type reader struct {
	*loader
	s     *Schema
	at    place
	scope scope
	keys  map[string]json.RawMessage
}

// fault returns an error about the value of a keyword.
func (r *reader) fault(key string, format string, args ...any) error {
	at := Schema{Doc: r.s.Doc, Pointer: r.s.Pointer + "/" + key, file: r.s.file}
	return at.Errorf(format, args...)
}

// into decodes the value of a keyword.
func (r *reader) into(key string, raw json.RawMessage, v any) error {
	if json.Unmarshal(raw, v) != nil || string(raw) == "null" {
		return r.fault(key, "%s is not what the keyword %s takes", raw, key)
	}
	return nil
}

func (r *reader) keyword(key string, raw json.RawMessage) (err error) {
	s := r.s
	if slices.Contains(r.opts.Marks, key) {
		if s.Marks == nil {
			s.Marks = map[string]json.RawMessage{}
		}
		s.Marks[key] = raw
		return nil
	}
	if r.opts.Strict && keywords[key] == nil && !slices.Contains(r.opts.Ignore, key) {
		return r.fault(jsonedit.EscapeToken(key), "the keyword %q is not one of JSON Schema; if it has no meaning here, add an ignore row for it to the overrides", key)
	}
	if k := keywords[key]; k == nil || k.Effect == Ignored || slices.Contains(r.opts.Ignore, key) {
		r.doc.Ignored[key]++
		if key == "format" {
			err = r.into(key, raw, &s.Format)
		}
		return err
	}
	switch key {
	case "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "title", "definitions", "$defs":
	case "description":
		err = r.into(key, raw, &s.Description)
	case "default":
		s.Default = raw
	case "$ref", "$dynamicRef", "$recursiveRef":
		var text string
		if err := r.into(key, raw, &text); err != nil {
			return err
		}
		into := s
		if key != "$ref" && r.keys["$ref"] != nil {
			into = &Schema{Doc: s.Doc, Pointer: s.Pointer, file: s.file}
			s.AllOf = append(s.AllOf, into)
		}
		into.Ref = text // replaced by the name of the definition
		r.refs = append(r.refs, reference{into, r.at, r.scope, text})
	case "type":
		err = r.types(raw)
	case "const":
		s.Const = raw
	case "enum":
		if err = r.into(key, raw, &s.Enum); err == nil && len(s.Enum) == 0 {
			return s.Errorf("enum is empty, so it admits nothing; remove the keyword or name a value")
		}
	case "properties":
		s.Properties, err = r.named(key, raw)
		if s.Properties == nil {
			s.Properties = []Property{}
		}
	case "patternProperties":
		if s.Patterns, err = r.named(key, raw); err == nil {
			for _, p := range s.Patterns {
				if err := r.pattern(key, p.Name); err != nil {
					return err
				}
			}
		}
	case "required":
		if err = r.into(key, raw, &s.Required); err == nil {
			slices.Sort(s.Required)
			s.Required = slices.Compact(s.Required)
		}
	case "additionalProperties":
		s.Additional, err = r.sub(key, raw)
	case "propertyNames":
		s.PropertyNames, err = r.sub(key, raw)
	case "minProperties":
		s.MinProps, err = r.count(key, raw)
	case "maxProperties":
		s.MaxProps, err = r.count(key, raw)
	case "prefixItems":
		s.Prefix, err = r.list(key, raw)
	case "items":
		if raw[0] != '[' {
			s.Items, err = r.sub(key, raw)
		} else if string(bytes.TrimSpace(raw[1:])) != "]" {
			s.Prefix, err = r.list(key, raw)
		}
	case "additionalItems":
		if items := r.keys["items"]; len(items) > 0 && items[0] == '[' {
			s.Items, err = r.sub(key, raw)
		} else {
			r.doc.Ignored[key]++
		}
	case "contains":
		s.Contains, err = r.sub(key, raw)
	case "minContains":
		s.MinContains, err = r.count(key, raw)
	case "maxContains":
		s.MaxContains, err = r.count(key, raw)
	case "minItems":
		s.MinItems, err = r.count(key, raw)
	case "maxItems":
		s.MaxItems, err = r.count(key, raw)
	case "uniqueItems":
		err = r.into(key, raw, &s.Unique)
	case "not":
		s.Not, err = r.sub(key, raw)
	case "if":
		s.If, err = r.sub(key, raw)
	case "then":
		s.Then, err = r.sub(key, raw)
	case "else":
		s.Else, err = r.sub(key, raw)
	case "anyOf":
		s.AnyOf, err = r.list(key, raw)
	case "oneOf":
		s.OneOf, err = r.list(key, raw)
	case "allOf":
		var list []*Schema
		list, err = r.list(key, raw)
		s.AllOf = append(list, s.AllOf...)
	case "dependencies", "dependentRequired", "dependentSchemas":
		err = r.dependent(key, raw)
	case "minLength":
		s.MinLength, err = r.count(key, raw)
	case "maxLength":
		s.MaxLength, err = r.count(key, raw)
	case "pattern":
		if err = r.into(key, raw, &s.Pattern); err == nil {
			err = r.pattern(key, s.Pattern)
		}
	case "minimum":
		err = r.limit(key, raw, &s.Minimum, &s.ExclusiveMinimum)
	case "maximum":
		err = r.limit(key, raw, &s.Maximum, &s.ExclusiveMaximum)
	case "exclusiveMinimum", "exclusiveMaximum":
		if text := string(raw); text == "true" || text == "false" {
			return nil // draft 4: see limit
		}
		if key == "exclusiveMinimum" {
			return r.into(key, raw, &s.ExclusiveMinimum)
		}
		err = r.into(key, raw, &s.ExclusiveMaximum)
	case "multipleOf":
		err = r.multiple(key, raw)
	case "unevaluatedItems", "unevaluatedProperties": // see unevaluated
	default:
		return r.fault(key, "the keyword %s is in the table without an implementation", key)
	}
	return err
}

// sub reads the schema at key, a pointer below the one that is being read.
func (r *reader) sub(key string, raw json.RawMessage) (*Schema, error) {
	return r.loader.schema(place{r.at.source, r.at.pointer + "/" + key}, raw, r.scope)
}

// named reads the schemas of a keyword whose value is an object of them.
func (r *reader) named(key string, raw json.RawMessage) ([]Property, error) {
	var named map[string]json.RawMessage
	if err := r.into(key, raw, &named); err != nil {
		return nil, err
	}
	var out []Property
	for _, name := range slices.Sorted(maps.Keys(named)) {
		s, err := r.sub(key+"/"+jsonedit.EscapeToken(name), named[name])
		if err != nil {
			return nil, err
		}
		out = append(out, Property{name, s})
	}
	return out, nil
}

func (r *reader) list(key string, raw json.RawMessage) ([]*Schema, error) {
	var raws []json.RawMessage
	if err := r.into(key, raw, &raws); err != nil {
		return nil, err
	}
	if len(raws) == 0 {
		return nil, r.fault(key, "the list is empty, so it admits nothing; remove the keyword or name a schema")
	}
	var out []*Schema
	for i, raw := range raws {
		s, err := r.sub(key+"/"+strconv.Itoa(i), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func (r *reader) types(raw json.RawMessage) error {
	names := []string{""}
	if json.Unmarshal(raw, &names[0]) != nil {
		if err := r.into("type", raw, &names); err != nil {
			return err
		}
	}
	for _, name := range names {
		if !slices.Contains([]string{"string", "array", "number", "integer", "object", "boolean", "null"}, name) {
			return r.s.Errorf("type %q is not one of JSON Schema's seven", name)
		}
	}
	if len(names) == 0 {
		return r.s.Errorf("type is empty, so it admits nothing; remove the keyword or name a type")
	}
	r.s.Types = names
	return nil
}

// count reads a number of items, characters or members. It may have another notation, such as 1e1.
func (r *reader) count(key string, raw json.RawMessage) (*int, error) {
	v, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || v != math.Trunc(v) || v < 0 {
		return nil, r.fault(key, "%s is not what the keyword %s takes", raw, key)
	}
	n := int(min(v, math.MaxInt32))
	return &n, nil
}

// limit reads minimum or maximum, which the drafts until 4 make exclusive by a keyword beside it.
func (r *reader) limit(key string, raw json.RawMessage, inclusive, exclusive **float64) error {
	into := inclusive
	if string(r.keys["exclusive"+strings.ToUpper(key[:1])+key[1:]]) == "true" {
		into = exclusive
	}
	return r.into(key, raw, into)
}

func (r *reader) multiple(key string, raw json.RawMessage) error {
	if err := r.into(key, raw, &r.s.MultipleOf); err != nil {
		return err
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(string(raw)), "e")
	digits := strings.Trim(strings.Replace(mantissa, ".", "", 1), "0")
	if digits == "" || digits[0] == '-' {
		return r.fault(key, "%s is not what the keyword %s takes", raw, key)
	}
	if len(digits) > 18 {
		return r.fault(key, "%s has more than 18 digits; %s", raw, r.remedy(key))
	}
	return nil
}

// remedy says how to read a schema in spite of a keyword.
func (r *reader) remedy(key string) string {
	return fmt.Sprintf("to generate without it, add an ignore row for the keyword %q to the overrides; Validate then accepts more", key)
}

func (r *reader) pattern(key, text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return r.fault(key, "the pattern is not one of package regexp (%v); %s", err, r.remedy(key))
	}
	return nil
}

// dependent reads the keywords about objects that have a certain member.
func (r *reader) dependent(key string, raw json.RawMessage) error {
	var named map[string]json.RawMessage
	if err := r.into(key, raw, &named); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		at := key + "/" + jsonedit.EscapeToken(name)
		sub := named[name]
		if len(sub) > 0 && sub[0] == '[' {
			s := &Schema{Doc: r.s.Doc, Pointer: r.s.Pointer + "/" + at, file: r.s.file}
			if err := json.Unmarshal(sub, &s.Required); err != nil {
				return r.fault(key, "%s is not what the keyword %s takes", raw, key)
			}
			slices.Sort(s.Required)
			s.Required = slices.Compact(s.Required)
			r.s.Dependent = append(r.s.Dependent, Property{name, s})
			continue
		}
		s, err := r.sub(at, sub)
		if err != nil {
			return err
		}
		r.s.Dependent = append(r.s.Dependent, Property{name, s})
	}
	slices.SortStableFunc(r.s.Dependent, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// unevaluated reads unevaluatedItems and unevaluatedProperties. Where no other schema applies to
// the same value, they are the same as items and additionalProperties.
func (r *reader) unevaluated() error {
	s := r.s
	alone := s.Ref == "" && s.AllOf == nil && s.AnyOf == nil && s.OneOf == nil && s.If == nil && s.Dependent == nil && r.keys["$ref"] == nil
	for _, key := range []string{"unevaluatedProperties", "unevaluatedItems"} {
		raw, ok := r.keys[key]
		if !ok || slices.Contains(r.opts.Ignore, key) {
			continue
		}
		sub, err := r.sub(key, raw)
		if err != nil {
			return err
		}
		switch text := string(bytes.TrimSpace(raw)); {
		case text == "true" || text == "{}":
		case key == "unevaluatedProperties" && s.Additional != nil || key == "unevaluatedItems" && s.Items != nil:
			// There are no such values.
		case !alone || key == "unevaluatedItems" && s.Contains != nil:
			return r.fault(key, "%s beside other schemas for the same value is not supported; %s", key, r.remedy(key))
		case key == "unevaluatedProperties":
			s.Additional = sub
		default:
			s.Items = sub
		}
	}
	return nil
}
