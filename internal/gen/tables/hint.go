package tables

import (
	"maps"
	"slices"
)

// hint fills in the discriminators of the variants of n.
func (n *node) hint() {
	if len(n.union) == 0 {
		return
	}
	names := map[string]bool{}
	for i, v := range n.union {
		n.union[i].kinds = v.node.kinds()
		if n.union[i].kinds&object != 0 {
			v.node.members(names)
		}
	}
	best := 1 // a member with one value in all variants distinguishes none
	for _, name := range slices.Sorted(maps.Keys(names)) {
		texts := map[string]bool{}
		for _, v := range n.union {
			if v.kinds&object != 0 {
				for _, text := range v.node.pinned(name) {
					texts[text] = true
				}
			}
		}
		if len(texts) > best {
			best, n.tag = len(texts), name
		}
	}
	if n.tag == "" {
		return
	}
	for i, v := range n.union {
		if v.kinds&object != 0 {
			n.union[i].tags = v.node.pinned(n.tag)
		}
	}
}

// kinds returns the kinds of values that n may admit.
func (n *node) kinds() types {
	k := n.admitted()
	if len(n.enum) > 0 {
		var of types
		for _, text := range n.enum {
			of |= kindOf(text)
		}
		k &= of
	}
	for _, m := range n.all {
		k &= m.kinds()
	}
	if len(n.union) > 0 {
		var of types
		for _, v := range n.union {
			of |= v.node.kinds()
		}
		k &= of
	}
	return k
}

// members adds to names the members that n lists.
func (n *node) members(names map[string]bool) {
	for _, p := range n.props {
		names[p.name] = true
	}
	for _, m := range n.all {
		m.members(names)
	}
}

// pinned returns the values that the member called name may have in n, or nil if no enum limits
// them.
func (n *node) pinned(name string) []string {
	for _, p := range n.props {
		if p.name == name && len(p.node.enum) > 0 {
			return p.node.enum
		}
	}
	for _, m := range n.all {
		if texts := m.pinned(name); texts != nil {
			return texts
		}
	}
	return nil
}
