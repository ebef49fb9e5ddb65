package toolschema

import (
	"encoding/json"
	"math/big"

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
	keyword  string              // enum or const, for faults
	wanted   []any               // its values
	format   *format
	resource *resource

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
	minimum, maximum *bound
	above, below     *bound // exclusive
	multipleOf       *bound
}

// bound is a number in a schema.
type bound struct {
	*big.Rat
	text json.Number
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
