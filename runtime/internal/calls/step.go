package calls

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/replay"
)

// Step runs f and records its result. Later runs of the handler get the recorded result, and do not
// run f.
func Step[T any](ctx context.Context, r *Run, name string, f func(ctx context.Context) (T, error)) (result T, err error) {
	if f == nil {
		return result, r.stepFault(name, errNilFunction)
	}
	text, err := r.Step(ctx, name, func(ctx context.Context) (json.RawMessage, error) {
		v, err := f(ctx)
		if err != nil {
			return nil, err
		}
		return codec.Marshal(value.Of(&v))
	})
	if err != nil {
		return result, err
	}
	if err := decode(text, value.Of(&result)); err != nil {
		return *new(T), r.stepFault(name, fmt.Errorf("result: %w", err))
	}
	return result, nil
}

var errNilFunction = errors.New("nil function")

// stepFault returns the error for a mistake in the use of a step.
func (r *Run) stepFault(name string, err error) error {
	return fmt.Errorf("%s: step %q: %w", r.pkg, name, err)
}

// decode decodes a recorded result of any size.
func decode(text json.RawMessage, into codec.Decoder) error {
	return codec.Unmarshal(text, into, codec.AllowSize(text)...)
}

// StepError is the failure of the function of a step. See the type of package server.
type StepError struct {
	Step string // the name of the step
	Text string // of the error
	rpc  *jsonrpc.Error
}

// Error returns the text of the function's error.
func (e *StepError) Error() string { return e.Text }

// Unwrap returns the [*jsonrpc.Error] of the function's error, or nil.
func (e *StepError) Unwrap() error {
	if e.rpc == nil {
		return nil
	}
	return e.rpc
}

// stepKey is the key of the step in the context of its function.
type stepKey struct{}

type runningStep struct {
	run        *Run
	name       string
	occurrence int
}

// IdempotencyKey returns a key for the step whose function has the context, or "" outside of a
// step. It is the same in all runs of the call, and differs from those of all other steps and
// calls.
func IdempotencyKey(ctx context.Context) string {
	s, _ := ctx.Value(stepKey{}).(*runningStep)
	if s == nil {
		return ""
	}
	return s.idempotencyKey()
}

func (s *runningStep) idempotencyKey() string {
	text := binary.AppendUvarint(nil, uint64(len(s.run.id)))
	text = append(append(text, s.run.id...), s.name...)
	text = binary.BigEndian.AppendUint64(text, uint64(s.occurrence))
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// InStep returns an error if ctx belongs to the function of a step. Such a function must not do the
// operation.
func InStep(ctx context.Context, operation string) error {
	if s, ok := ctx.Value(stepKey{}).(*runningStep); ok {
		return fmt.Errorf("%s: %s in step %q", s.run.pkg, operation, s.name)
	}
	return nil
}

// Step is the function [Step] for an f that returns JSON. Its stack frame and those below it are
// kept small, because a step often runs on the first page of a new stack.
func (r *Run) Step(ctx context.Context, name string, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if name == "" {
		return nil, errors.New(r.pkg + ": step without a name")
	}
	if err := InStep(ctx, "step"); err != nil {
		return nil, err
	}
	if r.err != nil {
		return nil, r.err
	}
	if r.rounds != nil {
		defer r.rounds.hold()()
	} else if r.task != nil {
		defer r.task.Hold()()
	}
	out, err := r.recorder.Step(ctx, name, func(occurrence int) (replay.Outcome, error) {
		text, err := f(context.WithValue(ctx, stepKey{}, &runningStep{r, name, occurrence}))
		if err != nil {
			return failedStep(ctx, err)
		}
		return replay.Outcome{Result: text}, nil
	})
	if err != nil {
		return nil, r.failed(err, "")
	}
	if out.Failed {
		return nil, stepError(name, out.Result)
	}
	return out.Result, nil
}

// failure is the JSON form of the failure of a step.
type failure struct {
	Text string          `json:"text"`
	RPC  json.RawMessage `json:"rpc,omitempty"` // a [jsonrpc.Error]
}

// failedStep returns the outcome of a step whose function has failed with err. It returns err if
// the failure must not be recorded.
func failedStep(ctx context.Context, err error) (replay.Outcome, error) {
	if _, required := errors.AsType[*InputRequiredError](err); required || ctx.Err() != nil {
		return replay.Outcome{}, err
	}
	failed := failure{Text: boundary.ErrorText(err)}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && rpc != nil {
		if failed.RPC, err = codec.Marshal(rpc); err != nil {
			return replay.Outcome{}, err
		}
	}
	text, err := codec.Marshal(value.Of(&failed))
	return replay.Outcome{Result: text, Failed: true}, err
}

// stepError returns the recorded failure of a step.
func stepError(name string, recorded json.RawMessage) error {
	var failed failure
	if err := decode(recorded, value.Of(&failed)); err != nil {
		return err
	}
	e := &StepError{Step: name, Text: failed.Text}
	if failed.RPC != nil {
		e.rpc = new(jsonrpc.Error)
		if err := codec.Unmarshal(failed.RPC, e.rpc); err != nil {
			return err
		}
	}
	return e
}
