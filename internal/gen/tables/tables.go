// Package tables compiles the schemas of one or more revisions to the table that package
// codec/wire/jsonschema checks values against.
//
// It works on the published documents and not on the merged graph of package merge, so that
// validation is exact for each revision. The steps:
//
//   - build turns each schema into a [node], and resolve replaces every bare $ref with the node
//     that it leads to;
//   - simplify rewrites a node to one that admits the same values and leads to clearer faults: an
//     anyOf of constants becomes an enum, an anyOf inside of an anyOf is flattened, a required
//     member without a property gets one;
//   - fold finds equivalent nodes, recursive ones included, and keeps one of each for all
//     revisions;
//   - hint computes the discriminators of unions;
//   - [Tables.Source] prints the result.
package tables

import (
	"maps"
	"slices"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// Tables is the compiled form of some documents. It is not changed once compiled.
type Tables struct {
	revisions   []string
	definitions []definition
	nodes       []*node
}

// definition is one row of the index: a name and its node in each revision, or nil.
type definition struct {
	name  string
	nodes []*node
}

// Compile flattens docs, whose revisions must differ, to one table. Nodes are
// numbered in the order of docs, and of definition names within each; the result
// depends on nothing else. Errors are [load.Error].
func Compile(docs []*load.Document) (*Tables, error) {
	b := newBuilder()
	t := &Tables{}
	names := map[string]bool{}
	for _, doc := range docs {
		if slices.Contains(t.revisions, doc.Revision) {
			return nil, &load.Error{File: doc.File, Message: "revision " + doc.Revision + " is given twice"}
		}
		t.revisions = append(t.revisions, doc.Revision)
		if err := b.document(doc); err != nil {
			return nil, err
		}
		for name := range doc.Defs {
			names[name] = true
		}
	}
	b.resolve()
	for _, n := range b.nodes {
		if err := n.simplify(b.any); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d := definition{name: name}
		for _, doc := range docs {
			d.nodes = append(d.nodes, b.defs[doc][name])
		}
		t.definitions = append(t.definitions, d)
	}
	t.fold(docs, b)
	for _, n := range t.nodes {
		n.hint()
	}
	return t, nil
}

// Revisions returns the labels of the revisions, in the order they were given.
func (t *Tables) Revisions() []string { return slices.Clone(t.revisions) }

// Definitions returns the names of all definitions, sorted.
func (t *Tables) Definitions() []string {
	names := make([]string, len(t.definitions))
	for i, d := range t.definitions {
		names[i] = d.name
	}
	return names
}

// Root returns the index in the printed table of a definition in a revision, and false if the
// revision has no such definition.
func (t *Tables) Root(revision, name string) (int32, bool) {
	for _, d := range t.definitions {
		if i := slices.Index(t.revisions, revision); d.name == name && i >= 0 && d.nodes[i] != nil {
			return d.nodes[i].index, true
		}
	}
	return 0, false
}
