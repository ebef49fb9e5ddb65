package jsonschema

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/codec"
)

// Check checks data, which must be one JSON value, against the node root, as returned by
// [Table.Root]. The error is nil or [Faults]. Opts limit the text as in [codec.Valid].
func (t *Table) Check(root int32, data []byte, opts ...codec.Option) error {
	if err := codec.Valid(data, append(codec.AllowSize(data), opts...)...); err != nil {
		if e, ok := err.(*codec.Error); ok {
			return Faults{e}
		}
		return err
	}
	return t.CheckValid(root, data)
}

// CheckValid is Check for text that is known to be well-formed: text that package codec has
// decoded, or written. It may panic on other text. Checking a value without faults allocates
// nothing, with four exceptions: the value is nested more than 32 deep; unions are nested whose
// variants must be tried in turn; more than four schemas are nested that each check the same value
// several times, as an allOf does; or a schema has a pattern, contains or uniqueItems.
func (t *Table) CheckValid(root int32, data []byte) error {
	c := checker{table: t, data: data}
	c.value(root, space(data, 0))
	return c.result()
}

// Validate checks data against a definition of a revision, as [Table.Check] does. It returns
// another error if the revision has no such definition.
func (t *Table) Validate(revision, definition string, data []byte) error {
	root, ok := t.Root(revision, definition)
	if !ok {
		return noDefinition(revision, definition)
	}
	return t.Check(root, data)
}

// ValidateValue encodes x and checks it against the first of the definitions that the revision has.
// The error is that of encoding, or that of [Table.Validate].
func (t *Table) ValidateValue(x codec.Encoder, revision string, definitions ...string) error {
	for _, d := range definitions {
		if root, ok := t.Root(revision, d); ok {
			data, err := codec.Marshal(x)
			if err != nil {
				return err
			}
			return t.CheckValid(root, data)
		}
	}
	return noDefinition(revision, definitions[0])
}

func noDefinition(revision, definition string) error {
	return fmt.Errorf("revision %q has no definition %q", revision, definition)
}

// checker is the state of one Check.
type checker struct {
	table *Table
	data  []byte

	depth int
	path  [32]int // the first steps of the path to the current value
	deep  []int   // the steps after those

	faults   Faults
	pointers int  // size of the pointers in faults
	more     bool // faults were left out

	quiet int // above zero, faults are counted, not recorded
	count int
	tried map[place]outcome // the outcomes of unions in quiet walks

	ends map[int]int // maps starts to ends, for large arrays and objects
	open []int       // scratch of skip: the starts of the open arrays and objects

	layers int // the number of layered nodes around the current value
	walked map[place]visit
}

// place is a node at an offset.
type place struct {
	node int32
	at   int
}

// push appends step to the path: the offset of a member name, or the complement of the index of an
// item.
func (c *checker) push(step int) {
	c.depth++
	c.set(step)
}

func (c *checker) pop() {
	c.depth--
	if c.depth >= len(c.path) {
		c.deep = c.deep[:c.depth-len(c.path)]
	}
}

// set replaces the last step.
func (c *checker) set(step int) {
	if d := c.depth - 1; d < len(c.path) {
		c.path[d] = step
	} else {
		c.deep = append(c.deep[:d-len(c.path)], step)
	}
}

func (c *checker) step(d int) int {
	if d < len(c.path) {
		return c.path[d]
	}
	return c.deep[d-len(c.path)]
}

// value checks the value at i against node n and returns the offset after it.
func (c *checker) value(n int32, i int) int {
	if n == Any {
		return c.skip(i)
	}
	if node := &c.table.Nodes[n]; node.layered() {
		return c.layer(n, i)
	}
	return c.walk(n, i)
}

// layered reports whether checking a value against n walks over the value more than once.
func (n *Node) layered() bool {
	if len(n.All) == 0 && n.Not == 0 && len(n.Union) == 0 && n.If == 0 && n.Contains == 0 && !n.Unique && len(n.Patterns) == 0 {
		return false
	}
	walks := len(n.All) + len(n.Patterns)
	for _, more := range [...]bool{n.Not != 0, len(n.Union) > 0, n.inner(), n.If != 0, n.If != 0, n.Contains != 0, n.Unique} {
		if more {
			walks++
		}
	}
	return walks > 1
}

// inner reports whether n constrains members or items.
func (n *Node) inner() bool {
	return len(n.Props) > 0 || len(n.Patterns) > 0 || n.Rest != Any || n.Names != Any || n.Items != Any || len(n.Prefix) > 0
}

// freeLayers is the number of nested layered nodes whose results are not cached. The results of
// deeper ones are cached, because each layered node can double the work for everything inside of
// it.
const freeLayers = 4

// visit is the cached result of a layered node.
type visit struct {
	faults   int  // found in a quiet walk, or -1 if there was no quiet walk
	recorded bool // the faults are recorded
	end      int
}

// layer is walk for a layered node.
func (c *checker) layer(n int32, i int) int {
	if c.layers < freeLayers {
		c.layers++
		end := c.walk(n, i)
		c.layers--
		return end
	}
	v, known := c.walked[place{n, i}]
	switch {
	case known && c.quiet > 0 && v.faults >= 0:
		c.count += v.faults
		return v.end
	case known && c.quiet == 0 && v.recorded:
		return v.end
	case !known:
		v.faults = -1
	}
	before := c.count
	v.end = c.walk(n, i)
	if c.quiet > 0 {
		v.faults = c.count - before
	} else {
		v.recorded = true
	}
	if c.walked == nil {
		c.walked = map[place]visit{}
	}
	c.walked[place{n, i}] = v
	return v.end
}

// walk checks the value at i against all keywords of node n.
func (c *checker) walk(n int32, i int) int {
	node := &c.table.Nodes[n]
	var kind Types
	end := -1
	switch c.data[i] {
	case '{':
		kind = Object
		if len(node.Props) > 0 || len(node.Patterns) > 0 || node.Rest != Any || node.Names != Any || len(node.Bounds) > 0 {
			end = c.object(node, i)
		}
	case '[':
		kind = Array
		if node.Items != Any || len(node.Prefix) > 0 || len(node.Bounds) > 0 || node.Contains != 0 {
			end = c.array(node, i)
		}
		if node.Unique {
			c.unique(i)
		}
	case '"':
		kind = String
		end = skipString(c.data, i)
		if len(node.Bounds) > 0 {
			c.length(node.Bounds, i, end)
		}
		if node.Pattern != nil && !node.Pattern.match(content(c.data[i+1:end-1])) && !c.countOnly() {
			c.keywordFault(i, "pattern", "%s does not match %s", c.excerpt(i), node.Pattern.Text)
		}
	case 't', 'f':
		kind = Bool
	case 'n':
		kind = Null
	default:
		kind = Number
		end = skipNumber(c.data, i)
		if len(node.Bounds) > 0 {
			c.size(node.Bounds, i, end)
		}
		if node.Types&Number == Integer && !isInteger(c.data[i:end]) {
			kind = Fraction
		}
	}
	if node.Types != 0 && node.Types&kind == 0 {
		c.wrongKind(node.Types, i)
	} else if node.Enum != nil && !c.oneOf(node.Enum, i) {
		c.notOneOf(node.Enum, i)
	}
	for _, m := range node.All {
		end = c.value(m, i)
	}
	if node.Not != 0 {
		var faults int
		if faults, end = c.attempt(node.Not, i); faults == 0 && !c.countOnly() {
			c.keywordFault(i, "not", "the schema excludes this value")
		}
	}
	if node.If != 0 {
		faults, after := c.attempt(node.If, i)
		branch := node.Then
		if end = after; faults > 0 {
			branch = node.Else
		}
		if branch != Any {
			end = c.value(branch, i)
		}
	}
	if len(node.Union) > 0 {
		end = c.union(n, i)
	}
	if end < 0 {
		end = c.skip(i)
	}
	return end
}

// object checks the members of the object at i.
func (c *checker) object(node *Node, i int) int {
	start := i
	required, n := 0, 0
	c.push(0)
	for i = space(c.data, i+1); c.data[i] != '}'; n++ {
		c.set(i)
		name := i
		i = skipString(c.data, i)
		at := colon(c.data, i)
		p := node.find(c.data[name+1 : i-1])
		if node.Names != Any {
			c.value(node.Names, name)
		}
		matched := false
		if len(node.Patterns) > 0 {
			text := content(c.data[name+1 : i-1])
			for _, pattern := range node.Patterns {
				if pattern.Pattern.match(text) {
					matched = true
					c.value(pattern.Node, at)
				}
			}
		}
		switch {
		case p >= 0:
			if node.Props[p].Required {
				required++
			}
			i = c.value(node.Props[p].Node, at)
		case matched:
			i = c.skip(at)
		case node.Rest == None:
			if !c.countOnly() {
				c.keywordFault(name, "additionalProperties", "member %s is not allowed", c.excerpt(name))
			}
			i = c.skip(at)
		default:
			i = c.value(node.Rest, at)
		}
		i = next(c.data, i)
	}
	c.pop()
	// Names are unique, or the text would not be well-formed.
	for _, p := range node.Props {
		if p.Required {
			required--
		}
	}
	if required < 0 {
		c.missing(node.Props, start)
	}
	for _, b := range node.Bounds {
		switch b.Keyword {
		case MinProperties:
			if n < b.count() && !c.countOnly() {
				c.keywordFault(start, "minProperties", "%s, want at least %s", plural(n, "member"), b.Limit)
			}
		case MaxProperties:
			if n > b.count() && !c.countOnly() {
				c.keywordFault(start, "maxProperties", "%s, want at most %s", plural(n, "member"), b.Limit)
			}
		}
	}
	return i + 1
}

// smallValue is the size in bytes up to which walking over a value again is cheaper than storing
// its end.
const smallValue = 64

// skip returns the offset after the value at i. If the value is deeply nested, skip caches the ends
// of arrays and objects: each level may have to skip a value together with everything inside of it.
func (c *checker) skip(i int) int {
	if c.depth < len(c.path) || c.data[i] != '{' && c.data[i] != '[' {
		return skip(c.data, i)
	}
	c.open = c.open[:0]
	for {
		switch c.data[i] {
		case '"':
			i = skipString(c.data, i)
			continue
		case '{', '[':
			if end, ok := c.ends[i]; ok {
				i = end
			} else {
				c.open = append(c.open, i)
				i++
			}
		case '}', ']':
			i++
			c.closeValue(i)
		default:
			i++
			continue
		}
		if len(c.open) == 0 {
			return i
		}
	}
}

// closeValue stores that the innermost open value of skip ends at i.
func (c *checker) closeValue(i int) {
	last := len(c.open) - 1
	start := c.open[last]
	c.open = c.open[:last]
	if i-start <= smallValue {
		return
	}
	if c.ends == nil {
		c.ends = map[int]int{}
	}
	c.ends[start] = i
}

// find returns the index in n.Props of the member whose name is content, the text between the
// quotes of a JSON string. It returns -1 if there is none.
func (n *Node) find(content []byte) int {
	if escaped(content) {
		i, ok := slices.BinarySearchFunc(n.Props, content, func(p Prop, content []byte) int { return -order(content, p.Name) })
		if !ok {
			return -1
		}
		return i
	}
	low, high := 0, len(n.Props)
	for low < high {
		mid := int(uint(low+high) / 2)
		switch name := n.Props[mid].Name; {
		case name == string(content):
			return mid
		case name < string(content):
			low = mid + 1
		default:
			high = mid
		}
	}
	return -1
}

// member returns the offsets of the name and the value of a member of the object at
// i, or -1.
func (c *checker) member(i int, name string) (key, value int) {
	for i = space(c.data, i+1); c.data[i] != '}'; {
		key = i
		i = skipString(c.data, i)
		at := colon(c.data, i)
		if order(c.data[key+1:i-1], name) == 0 {
			return key, at
		}
		i = next(c.data, c.skip(at))
	}
	return -1, -1
}

// array checks the items of the array at i, and how many there are.
func (c *checker) array(node *Node, i int) int {
	start := i
	n, found := 0, 0
	c.push(0)
	for i = space(c.data, i+1); c.data[i] != ']'; n++ {
		c.set(^n)
		if node.Contains != 0 {
			if faults, _ := c.attempt(node.Contains, i); faults == 0 {
				found++
			}
		}
		item := node.Items
		if n < len(node.Prefix) {
			item = node.Prefix[n]
		}
		i = next(c.data, c.value(item, i))
	}
	c.pop()
	if node.Contains != 0 {
		c.contains(node, start, found)
	}
	for _, b := range node.Bounds {
		switch b.Keyword {
		case MinItems:
			if n < b.count() && !c.countOnly() {
				c.keywordFault(start, "minItems", "%s, want at least %s", plural(n, "item"), b.Limit)
			}
		case MaxItems:
			if n > b.count() && !c.countOnly() {
				c.keywordFault(start, "maxItems", "%s, want at most %s", plural(n, "item"), b.Limit)
			}
		}
	}
	return i + 1
}

// contains compares the number of items of the array at i that node.Contains admits with the bounds.
func (c *checker) contains(node *Node, i, found int) {
	least := 1
	for _, b := range node.Bounds {
		switch b.Keyword {
		case MinContains:
			least = b.count()
		case MaxContains:
			if found > b.count() && !c.countOnly() {
				c.keywordFault(i, "maxContains", "%s as contains describes, want at most %s", plural(found, "item"), b.Limit)
			}
		}
	}
	if found < least && !c.countOnly() {
		c.keywordFault(i, "contains", "%s as contains describes, want at least %d", plural(found, "item"), least)
	}
}

// unique checks that no two items of the array at i are equal.
func (c *checker) unique(i int) {
	seen := map[string]int{}
	start, n := i, 0
	for i = space(c.data, i+1); c.data[i] != ']'; n++ {
		var key []byte
		key, i = canonical(nil, c.data, i)
		if first, twice := seen[string(key)]; twice && !c.countOnly() {
			c.keywordFault(start, "uniqueItems", "the items %d and %d are equal", first, n)
			return
		} else if twice {
			return
		}
		seen[string(key)] = n
		i = next(c.data, i)
	}
}

// length checks the length of the string from i to end.
func (c *checker) length(bounds []Bound, i, end int) {
	for _, b := range bounds {
		switch b.Keyword {
		case MinLength:
			if n := codePoints(c.data[i+1 : end-1]); n < b.count() && !c.countOnly() {
				c.keywordFault(i, "minLength", "%s, want at least %s", plural(n, "character"), b.Limit)
			}
		case MaxLength:
			if n := codePoints(c.data[i+1 : end-1]); n > b.count() && !c.countOnly() {
				c.keywordFault(i, "maxLength", "%s, want at most %s", plural(n, "character"), b.Limit)
			}
		}
	}
}

// size compares the number from i to end with bounds.
func (c *checker) size(bounds []Bound, i, end int) {
	n := parseNumber(c.data[i:end])
	for _, b := range bounds {
		switch {
		case b.Keyword == MultipleOf:
			if !n.multipleOf(parseNumber([]byte(b.Limit))) && !c.countOnly() {
				c.keywordFault(i, "multipleOf", "%s is not a multiple of %s", c.excerpt(i), b.Limit)
			}
			continue
		case b.Keyword > ExclusiveMaximum:
			continue
		}
		order := n.compare(parseNumber([]byte(b.Limit)))
		switch b.Keyword {
		case Minimum:
			if order < 0 && !c.countOnly() {
				c.keywordFault(i, "minimum", "%s is less than %s", c.excerpt(i), b.Limit)
			}
		case Maximum:
			if order > 0 && !c.countOnly() {
				c.keywordFault(i, "maximum", "%s is more than %s", c.excerpt(i), b.Limit)
			}
		case ExclusiveMinimum:
			if order <= 0 && !c.countOnly() {
				c.keywordFault(i, "exclusiveMinimum", "%s is not more than %s", c.excerpt(i), b.Limit)
			}
		case ExclusiveMaximum:
			if order >= 0 && !c.countOnly() {
				c.keywordFault(i, "exclusiveMaximum", "%s is not less than %s", c.excerpt(i), b.Limit)
			}
		}
	}
}

// count returns the limit as an int.
func (b Bound) count() int {
	n, _ := strconv.Atoi(b.Limit)
	return n
}

// oneOf reports whether the value at i is one of texts.
func (c *checker) oneOf(texts []string, i int) bool {
	for _, text := range texts {
		if equals(c.data, i, text) {
			return true
		}
	}
	return false
}

// attempt checks the value at i against node n without recording faults. It returns the number of
// faults and the offset after the value.
func (c *checker) attempt(n int32, i int) (faults, end int) {
	before := c.count
	c.quiet++
	end = c.value(n, i)
	c.quiet--
	faults, c.count = c.count-before, before
	return faults, end
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}
