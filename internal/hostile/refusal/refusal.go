// Package refusal compares errors with those that hostile inputs must cause.
package refusal

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/hostile"
)

var rules = map[hostile.Rule]error{
	hostile.Syntax: codec.ErrSyntax, hostile.BOM: codec.ErrBOM, hostile.ControlChar: codec.ErrControlChar,
	hostile.Escape: codec.ErrEscape, hostile.Number: codec.ErrNumber, hostile.Literal: codec.ErrLiteral, hostile.EOF: codec.ErrEOF,
	hostile.Trailing: codec.ErrTrailing, hostile.UTF8: codec.ErrUTF8, hostile.Surrogate: codec.ErrSurrogate,
	hostile.Duplicate: codec.ErrDuplicate, hostile.Depth: codec.ErrDepth, hostile.Size: codec.ErrSize,
	hostile.StringSize: codec.ErrStringSize, hostile.Integer: codec.ErrInteger,

	hostile.NoObject: jsonrpc.ErrObject, hostile.Version: jsonrpc.ErrVersion, hostile.ID: jsonrpc.ErrID,
	hostile.NoID: jsonrpc.ErrNoID, hostile.Method: jsonrpc.ErrMethod, hostile.Params: jsonrpc.ErrParams,
	hostile.Positional: jsonrpc.ErrPositional, hostile.Result: jsonrpc.ErrResult, hostile.Error: jsonrpc.ErrError,
	hostile.Both: jsonrpc.ErrBoth, hostile.Mixed: jsonrpc.ErrMixed, hostile.Neither: jsonrpc.ErrNeither,
	hostile.Batched: jsonrpc.ErrBatch, hostile.NoBatch: jsonrpc.ErrNoBatch, hostile.EmptyBatch: jsonrpc.ErrEmptyBatch,
	hostile.BatchSize: jsonrpc.ErrBatchSize,
}

// Is reports whether err is the error that a rule names.
func Is(err error, r hostile.Rule) bool {
	if r == hostile.Mistyped {
		return errors.Is(err, codec.ErrType)
	}
	return err != nil && rules[r] != nil && errors.Is(err, rules[r])
}

// Check returns an error that describes how err, the result of decoding text, differs from want. It
// returns nil if they match.
func Check(want hostile.Refusal, text string, err error) error {
	if want.Rule == hostile.Taken {
		return err
	}
	e, ok := errors.AsType[*codec.Error](err)
	switch {
	case !ok:
		return fmt.Errorf("got %v, want %s", err, want.Rule)
	case !Is(err, want.Rule) || e.Offset != int64(want.Offset) || e.Pointer != want.Pointer:
		return fmt.Errorf("got %v, want %s at %q, offset %d", err, want.Rule, want.Pointer, want.Offset)
	case jsonrpc.CodeOf(err) != want.Rule.Code():
		return fmt.Errorf("code %d for %v, want %d", jsonrpc.CodeOf(err), err, want.Rule.Code())
	}
	if line, column := codec.Position([]byte(text), want.Offset); e.Line != line || e.Column != column {
		return fmt.Errorf("line %d, column %d for %v", line, column, err)
	}
	return nil
}
