// Package hostile holds inputs that decoders are known to get wrong, each with what has to become of it: it is
// taken exactly, or refused with an error of its own at a place of its own. The tests of the packages codec,
// codec/jsonrpc and mcp decode them, and so does the comparison with other libraries.
//
// The package imports none of ours, so that the tests of all of them can use it.
package hostile

// Rule names the error that an input is refused with: a sentinel, or a type, of package codec or codec/jsonrpc.
type Rule string

// The rules, in two groups: the text is malformed; it is well formed and no message, or of the wrong shape. The
// zero Rule is none: the input is taken.
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
	Mistyped   Rule = "*codec.TypeError"
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

// Malformed reports whether the rule is about the text, whatever it is meant to be.
func (r Rule) Malformed() bool {
	switch r {
	case Syntax, BOM, ControlChar, Escape, Number, Literal, EOF, Trailing, UTF8, Surrogate, Duplicate, Depth, Size, StringSize:
		return true
	}
	return false
}

// Code is the error code of JSON-RPC 2.0 that goes with the rule; 0 goes with Taken.
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

// Refusal says why an input is refused and where. The zero Refusal is none: the input is taken, and written as
// the same JSON value.
type Refusal struct {
	Rule    Rule
	Offset  int    // of the fault, in bytes
	Pointer string // JSON pointer to the fault
}

// Class is a run of inputs of one kind.
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
