package rerun

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Step runs f and records its outcome. Later runs of the handler get the recorded outcome, and do
// not run f.
func Step[T any](ctx context.Context, l *Log, name string, f func(ctx context.Context) (T, error), options ...StepOption) (result T, err error) {
	if f == nil {
		return result, l.stepFault(name, errNilFunction)
	}
	if err := Recordable[T](); err != nil {
		return result, l.stepFault(name, err)
	}
	encoded := func(ctx context.Context) (json.RawMessage, error) {
		v, err := f(ctx)
		if err != nil {
			return nil, err
		}
		text, err := codec.Marshal(value.Of(&v))
		if err == nil && mayLose[T]() {
			err = checkLoss[T](text)
		}
		if err != nil {
			return nil, l.stepFault(name, fmt.Errorf("the result cannot be recorded: %w", err))
		}
		return text, nil
	}
	var text json.RawMessage
	if len(options) == 0 {
		text, err = l.Step(ctx, name, encoded)
	} else {
		text, err = l.stepWith(ctx, name, encoded, options)
	}
	if err != nil {
		return result, err
	}
	if err := decode(text, value.Of(&result)); err != nil {
		return *new(T), l.stepFault(name, fmt.Errorf("result: %w", err))
	}
	return result, nil
}

var errNilFunction = errors.New("nil function")

// stepFault returns the error for a mistake in the use of a step.
func (l *Log) stepFault(name string, err error) error { return l.faultf("step %q: %w", name, err) }

// decode decodes a recorded result of any size.
func decode(text json.RawMessage, into codec.Decoder) error {
	return codec.Unmarshal(text, into, codec.AllowSize(text)...)
}

// StepError is the failure of the function of a step. See the type of package server.
type StepError struct {
	Step string // the name of the step
	Text string // of the error
	rpc  *jsonrpc.Error
	// began is when the function began, if that is recorded: for the first attempt of a [Retry].
	began time.Time
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

// runningStep is the step that a scope belongs to. Its log is nil outside of a step.
type runningStep struct {
	log        *Log
	branch     string
	name       string
	occurrence int
}

// IdempotencyKey returns a key for the step whose function has the context, or "" outside of a
// step. It is the same in all runs of the call, and differs from those of all other steps and
// calls.
func IdempotencyKey(ctx context.Context) string {
	if s := scopeOf(ctx); s.inStep() {
		return s.step.idempotencyKey()
	}
	return ""
}

func (s *runningStep) idempotencyKey() string {
	text := binary.AppendUvarint(nil, uint64(len(s.log.id)))
	text = append(append(text, s.log.id...), s.name...)
	text = binary.BigEndian.AppendUint64(text, uint64(s.occurrence))
	sum := sha256.Sum256(append(text, s.branch...))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Step is the function [Step] for an f that returns JSON. Its stack frame and those below it are
// kept small, because a step often runs on the first page of a new stack.
func (l *Log) Step(ctx context.Context, name string, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if name == "" {
		return nil, l.faultf("step without a name")
	}
	if err := InStep(ctx, "step"); err != nil {
		return nil, err
	}
	b := l.branchOf(ctx)
	e := &Entry{ID: ID{Kind: KindStep, Key: name}}
	found, err := b.begin(ctx, e)
	if err != nil {
		return nil, err
	}
	defer b.end(e, found) // even if f panics
	if found == nil {
		if err := l.run(ctx, b, e, f); err != nil {
			return nil, err
		}
		found = e
	}
	if found.Failed {
		return nil, l.stepError(e, found.Result)
	}
	return found.Result, nil
}

// run runs the function of the step e, and records its outcome, whatever it is: only the end of the
// execution, and a cancellation because of a suspension, leave a step open. If the function panics,
// run records that, without the value, which may be a secret.
func (l *Log) run(ctx context.Context, b *branch, e *Entry, f func(ctx context.Context) (json.RawMessage, error)) error {
	if err := l.store(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return l.unbegun(ctx, b, e)
	}
	in := &scope{ctx, b, runningStep{l, e.Branch, e.Key, e.Occurrence}}
	if b.attempts { // all have the same idempotency key, which no other step has, in a legacy log either
		in.step.branch, in.step.occurrence = b.path, 1
	}
	returned := false
	defer func() {
		// Without recover, the handler gets the panic as it is.
		if !returned && l.ctx.Err() == nil {
			e.Result, e.Failed = panicked, true
			l.record(e) // of an error, the run knows; see checkRecorded
		}
	}()
	began := int64(0)
	if b.attempts && e.Occurrence == 1 {
		began = l.until(time.Now()).UnixMicro()
	}
	text, err := f(in)
	returned = true
	if err = boundary.Sound(err); err != nil {
		if l.ctx.Err() != nil { // of which err may be the result
			return l.interrupt(err)
		}
		if err := b.cutOff(ctx); err != nil {
			return err
		}
		if text, err = failureOf(err, began); err != nil {
			return err
		}
		e.Failed = true
	}
	e.Result = text
	return l.record(e)
}

// interrupt returns the error of a step that has failed with err after the end of the execution.
func (l *Log) interrupt(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if required, ok := errors.AsType[*InputRequiredError](l.ending("")); ok {
		return required
	}
	return err
}

// failure is the JSON form of the failure of a step.
type failure struct {
	Text string          `json:"text"`
	RPC  json.RawMessage `json:"rpc,omitempty"` // a [jsonrpc.Error]
	// Panicked says that the function has panicked. Later runs panic at the step, too.
	Panicked bool `json:"panicked,omitempty"`
	// Began is [StepError].began in microseconds since 1970, or 0.
	Began int64 `json:"began,omitempty"`
}

// panicked is the outcome of a step whose function has panicked, or has called [runtime.Goexit].
var panicked = json.RawMessage(`{"text":"the function panicked","panicked":true}`)

// failureOf returns the outcome of a step whose function has failed with err. Began is that of the
// outcome.
func failureOf(err error, began int64) (json.RawMessage, error) {
	failed := failure{Text: boundary.ErrorText(err), Began: began}
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && rpc != nil {
		rpc = boundary.WireError(rpc) // whose message is valid UTF-8
		if failed.RPC, err = encodeRPC(rpc); err != nil {
			rpc = new(*rpc)
			rpc.Data = nil // is no JSON, or too deep
			failed.RPC, err = encodeRPC(rpc)
		}
		if err != nil {
			return nil, err
		}
	}
	return codec.Marshal(value.Of(&failed))
}

// encodeRPC encodes the RPC of a failure, which later runs must be able to decode as a part of it.
func encodeRPC(rpc *jsonrpc.Error) (text json.RawMessage, err error) {
	if text, err = codec.Marshal(rpc); err == nil {
		options := append(codec.AllowSize(text), codec.MaxDepth(wire.DefaultDepth-1))
		err = codec.Unmarshal(text, new(jsonrpc.Error), options...)
	}
	return text, err
}

// stepError returns the recorded failure of a step. It panics if the function has panicked, so that
// this run does what the first one did.
func (l *Log) stepError(step *Entry, recorded json.RawMessage) error {
	if err := l.unfinished(step, recorded); err != nil {
		return err
	}
	var failed failure
	if err := decode(recorded, value.Of(&failed)); err != nil {
		return err
	}
	if failed.Panicked {
		panic(l.stepFault(step.Key, fmt.Errorf("%s in an earlier run", failed.Text)))
	}
	e := &StepError{Step: step.Key, Text: failed.Text}
	if failed.Began != 0 {
		e.began = time.UnixMicro(failed.Began)
	}
	if failed.RPC != nil {
		e.rpc = new(jsonrpc.Error)
		if err := decode(failed.RPC, e.rpc); err != nil {
			return err
		}
	}
	return e
}
