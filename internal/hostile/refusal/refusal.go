// Package refusal compares errors with those that hostile inputs must cause.
package refusal

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

var rules = map[hostile.Rule]error{
	hostile.Syntax: codec.ErrSyntax, hostile.BOM: jsonfault.BOM, hostile.ControlChar: jsonfault.ControlChar,
	hostile.Escape: jsonfault.Escape, hostile.Number: jsonfault.Number, hostile.Literal: jsonfault.Literal, hostile.EOF: jsonfault.EOF,
	hostile.Trailing: jsonfault.Trailing, hostile.UTF8: jsonfault.UTF8, hostile.Surrogate: jsonfault.Surrogate,
	hostile.Duplicate: codec.ErrDuplicate, hostile.Depth: jsonfault.Depth, hostile.Size: jsonfault.Size,
	hostile.StringSize: jsonfault.StringSize, hostile.Integer: jsonfault.Integer,

	hostile.NoObject: jsonfault.NotObject, hostile.Version: jsonfault.Version, hostile.ID: jsonfault.ID,
	hostile.NoID: jsonfault.NoID, hostile.Method: jsonfault.Method, hostile.Params: jsonfault.Params,
	hostile.Positional: jsonfault.Positional, hostile.Result: jsonfault.Result, hostile.Error: jsonfault.Error,
	hostile.Both: jsonfault.Both, hostile.Mixed: jsonfault.Mixed, hostile.Neither: jsonfault.Neither,
	hostile.Batched: jsonfault.Batch, hostile.NoBatch: jsonfault.NoBatch, hostile.EmptyBatch: jsonfault.EmptyBatch,
	hostile.BatchSize: jsonfault.BatchSize,
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
