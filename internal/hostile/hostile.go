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
	BOM         Rule = "codec.ErrBOM"
	ControlChar Rule = "codec.ErrControlChar"
	Escape      Rule = "codec.ErrEscape"
	Number      Rule = "codec.ErrNumber"
	Literal     Rule = "codec.ErrLiteral"
	EOF         Rule = "codec.ErrEOF"
	Trailing    Rule = "codec.ErrTrailing"
	UTF8        Rule = "codec.ErrUTF8"
	Surrogate   Rule = "codec.ErrSurrogate"
	Duplicate   Rule = "codec.ErrDuplicate"
	Depth       Rule = "codec.ErrDepth"
	Size        Rule = "codec.ErrSize"
	StringSize  Rule = "codec.ErrStringSize"

	Integer    Rule = "codec.ErrInteger"
	Mistyped   Rule = "codec.ErrType"
	NoObject   Rule = "jsonrpc.ErrObject"
	Version    Rule = "jsonrpc.ErrVersion"
	ID         Rule = "jsonrpc.ErrID"
	NoID       Rule = "jsonrpc.ErrNoID"
	Method     Rule = "jsonrpc.ErrMethod"
	Params     Rule = "jsonrpc.ErrParams"
	Positional Rule = "jsonrpc.ErrPositional"
	Result     Rule = "jsonrpc.ErrResult"
	Error      Rule = "jsonrpc.ErrError"
	Both       Rule = "jsonrpc.ErrBoth"
	Mixed      Rule = "jsonrpc.ErrMixed"
	Neither    Rule = "jsonrpc.ErrNeither"
	Batched    Rule = "jsonrpc.ErrBatch"
	NoBatch    Rule = "jsonrpc.ErrNoBatch"
	EmptyBatch Rule = "jsonrpc.ErrEmptyBatch"
	BatchSize  Rule = "jsonrpc.ErrBatchSize"
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
