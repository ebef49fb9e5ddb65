package jsonschema

import "math/bits"

// How a union is checked. The faults reported should be those of the variant that the value is most
// likely meant to be, and most variants must not be walked at all, or nested unions would take
// exponential time. Variants that certainly do not admit the value are therefore excluded first,
// each step being cheaper than the next:
//
//  1. those of other kinds;
//  2. those that want another value of the Tag member;
//  3. those that the members of the object exclude, without a look inside of their values: a
//     required member is missing, or a value is of the wrong kind or not in an enum.
//
// If one variant is left, the value is checked against it. If none is left, the value is wrong, and
// the faults reported are those of the kinds, of the tag, or of the variant that step 3 found the
// fewest against. If several are left they are tried in turn; if none admits the value, the faults
// reported are those of the one that has the fewest. The outcome of a union inside of another trial
// is cached, so that it is tried once at each place, no matter how many trials contain it.

// outcome is the result of trying the variants of a union.
type outcome struct {
	faults  int   // of the best variant; 1 if several variants of a oneOf admit the value
	end     int   // offset after the value
	variant int32 // the best variant
	several bool
}

// union checks the value at i against the union of node n.
func (c *checker) union(n int32, i int) int {
	node := &c.table.Nodes[n]
	kind := c.kind(i)
	var live uint64
	for v := range node.Union {
		if kinds := node.Union[v].Kinds; kinds == 0 || kinds&kind != 0 {
			live |= 1 << v
		}
	}
	if live == 0 {
		var kinds Types
		for v := range node.Union {
			kinds |= node.Union[v].Kinds
		}
		c.wrongKind(kinds, i)
		return c.skip(i)
	}
	if kind == Object && !single(live) {
		if node.Tag != "" {
			if key, at := c.member(i, node.Tag); at >= 0 {
				tagged := c.tagged(node, live, at)
				if tagged == 0 {
					c.push(key)
					c.notOneOf(node.tags(live), at)
					c.pop()
					return c.skip(i)
				}
				live = tagged
			}
		}
		if !single(live) {
			live = c.fitMembers(node, live, i)
		}
	}
	if single(live) {
		return c.value(node.Union[bits.TrailingZeros64(live)].Node, i)
	}
	return c.tryUnion(n, live, i)
}

func single(live uint64) bool { return live&(live-1) == 0 }

// kind returns the exact kind of the value at i.
func (c *checker) kind(i int) Types {
	switch c.data[i] {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	if isInteger(c.data[i:skipNumber(c.data, i)]) {
		return Integer
	}
	return Fraction
}

// tagged returns the live variants that admit the tag value at i.
func (c *checker) tagged(node *Node, live uint64, i int) (left uint64) {
	for rest := live; rest != 0; rest &= rest - 1 {
		v := bits.TrailingZeros64(rest)
		if tags := node.Union[v].Tags; tags == nil || c.oneOf(tags, i) {
			left |= 1 << v
		}
	}
	return left
}

// tags returns the tags of the live variants.
func (n *Node) tags(live uint64) (texts []string) {
	seen := map[string]bool{}
	for ; live != 0; live &= live - 1 {
		for _, text := range n.Union[bits.TrailingZeros64(live)].Tags {
			if !seen[text] {
				seen[text] = true
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// memberFit is how the members of an object fit one variant.
type memberFit struct {
	faults int32 // members that certainly do not fit
	known  int32 // members that the variant lists
	met    int32 // required members that are present
}

// fitMembers returns the live variants that may admit the members of the object at i, without a
// look inside of their values. If there are none, it returns the variant that fits best.
func (c *checker) fitMembers(node *Node, live uint64, i int) (left uint64) {
	var fits [MaxVariants]memberFit
	for i = space(c.data, i+1); c.data[i] != '}'; {
		key := i
		i = skipString(c.data, i)
		at := colon(c.data, i)
		for rest := live; rest != 0; rest &= rest - 1 {
			v := bits.TrailingZeros64(rest)
			c.fit(node.Union[v].Node, c.data[key+1:i-1], at, &fits[v])
		}
		i = next(c.data, c.skip(at))
	}
	best := -1
	for rest := live; rest != 0; rest &= rest - 1 {
		v := bits.TrailingZeros64(rest)
		f := &fits[v]
		f.faults += c.required(node.Union[v].Node) - f.met
		if f.faults == 0 {
			left |= 1 << v
		}
		if best < 0 || f.faults < fits[best].faults || f.faults == fits[best].faults && f.known > fits[best].known {
			best = v
		}
	}
	if left == 0 {
		return 1 << best
	}
	return left
}

// fit adds to f how a member fits node n.
func (c *checker) fit(n int32, content []byte, at int, f *memberFit) {
	node := &c.table.Nodes[n]
	child := node.Rest
	if p := node.find(content); p >= 0 {
		f.known++
		if node.Props[p].Required {
			f.met++
		}
		child = node.Props[p].Node
	} else if len(node.Patterns) > 0 {
		child = Any // a pattern may admit it
	}
	if !c.mayAdmit(child, at) {
		f.faults++
	}
	for _, m := range node.All {
		c.fit(m, content, at, f)
	}
}

// required returns how many members n requires.
func (c *checker) required(n int32) (count int32) {
	node := &c.table.Nodes[n]
	for _, p := range node.Props {
		if p.Required {
			count++
		}
	}
	for _, m := range node.All {
		count += c.required(m)
	}
	return count
}

// mayAdmit reports whether n may admit the value at i. It does not look inside of arrays and
// objects. It returns false only if n certainly does not admit the value.
func (c *checker) mayAdmit(n int32, i int) bool {
	if n == Any {
		return true
	}
	node := &c.table.Nodes[n]
	if node.Types != 0 && node.Types&c.kind(i) == 0 || node.Enum != nil && !c.oneOf(node.Enum, i) {
		return false
	}
	for _, m := range node.All {
		if !c.mayAdmit(m, i) {
			return false
		}
	}
	return true
}

// tryUnion checks the value at i against the live variants of node n in turn.
func (c *checker) tryUnion(n int32, live uint64, i int) int {
	node := &c.table.Nodes[n]
	a, known := c.tried[place{n, i}]
	if !known {
		a = c.tryVariants(node, live, i)
		if c.quiet > 0 {
			if c.tried == nil {
				c.tried = map[place]outcome{}
			}
			c.tried[place{n, i}] = a
		}
	}
	switch {
	case c.quiet > 0:
		c.count += a.faults
	case a.several:
		c.keywordFault(i, "oneOf", "more than one variant of oneOf admits this value")
	case a.faults > 0:
		c.value(a.variant, i)
	}
	return a.end
}

func (c *checker) tryVariants(node *Node, live uint64, i int) (best outcome) {
	admit := 0
	for rest := live; rest != 0; rest &= rest - 1 {
		variant := node.Union[bits.TrailingZeros64(rest)].Node
		faults, end := c.attempt(variant, i)
		if faults == 0 {
			admit++
		}
		if rest == live || faults < best.faults {
			best = outcome{faults: faults, end: end, variant: variant}
		}
		if admit > 0 && !node.Exact {
			break
		}
	}
	if admit > 1 {
		best.faults, best.several = 1, true
	}
	return best
}
