// Package hostile holds inputs that decoders are known to handle incorrectly. Each comes with the
// expected result: the input is accepted and kept exactly, or refused with a certain error at a
// certain position. The tests of the packages codec, codec/jsonrpc and mcp decode them, and so does
// the comparison with other libraries.
//
// The package imports no other package of this module, so that the tests of all packages can import
// it.
package hostile

// Rule names the error that an input is refused with: a sentinel, or a type, of package codec or
// codec/jsonrpc.
type Rule string

// The rules, in two groups: for malformed text, and for well-formed text that is not a valid
// message or violates the schema. The zero Rule means that the input is accepted.
const (
	Taken Rule = ""

	Syntax      Rule = "codec.ErrSyntax"
	BOM         Rule = "jsonfault.BOM"
	ControlChar Rule = "jsonfault.ControlChar"
	Escape      Rule = "jsonfault.Escape"
	Number      Rule = "jsonfault.Number"
	Literal     Rule = "jsonfault.Literal"
	EOF         Rule = "jsonfault.EOF"
	Trailing    Rule = "jsonfault.Trailing"
	UTF8        Rule = "jsonfault.UTF8"
	Surrogate   Rule = "jsonfault.Surrogate"
	Duplicate   Rule = "codec.ErrDuplicate"
	Depth       Rule = "jsonfault.Depth"
	Size        Rule = "jsonfault.Size"
	StringSize  Rule = "jsonfault.StringSize"

	Integer    Rule = "jsonfault.Integer"
	Mistyped   Rule = "codec.ErrType"
	NoObject   Rule = "jsonfault.NotObject"
	Version    Rule = "jsonfault.Version"
	ID         Rule = "jsonfault.ID"
	NoID       Rule = "jsonfault.NoID"
	Method     Rule = "jsonfault.Method"
	Params     Rule = "jsonfault.Params"
	Positional Rule = "jsonfault.Positional"
	Result     Rule = "jsonfault.Result"
	Error      Rule = "jsonfault.Error"
	Both       Rule = "jsonfault.Both"
	Mixed      Rule = "jsonfault.Mixed"
	Neither    Rule = "jsonfault.Neither"
	Batched    Rule = "jsonfault.Batch"
	NoBatch    Rule = "jsonfault.NoBatch"
	EmptyBatch Rule = "jsonfault.EmptyBatch"
	BatchSize  Rule = "jsonfault.BatchSize"
)

// Malformed reports whether the rule is about malformed text.
func (r Rule) Malformed() bool {
	switch r {
	case Syntax, BOM, ControlChar, Escape, Number, Literal, EOF, Trailing, UTF8, Surrogate, Duplicate, Depth, Size, StringSize:
		return true
	}
	return false
}

// Code returns the JSON-RPC 2.0 error code for the rule, or 0 for Taken.
func (r Rule) Code() int64 {
	switch {
	case r == Taken:
		return 0
	case r.Malformed():
		return -32700
	case r == Integer || r == Mistyped || r == Positional:
		return -32602
	}
	return -32600
}

// Refusal is the rule by which an input is refused, and the position. The zero Refusal means that
// the input is accepted and encoded as the same JSON value.
type Refusal struct {
	Rule    Rule
	Offset  int    // of the fault, in bytes
	Pointer string // JSON pointer to the fault
}

// Class is a list of inputs of one kind.
type Class[T any] struct {
	Name   string
	Inputs []T
}

// All returns the inputs of all classes.
func All[T any](classes []Class[T]) []T {
	var all []T
	for _, c := range classes {
		all = append(all, c.Inputs...)
	}
	return all
}
