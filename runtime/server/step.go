package server

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
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/replay"
)

// Step runs f once for a call, and returns its result.
//
// In revisions without sessions, a handler that makes an input request is called again, from its
// top, when the client has sent the response. Code before the input request then runs again. A step
// does not: its result travels with the responses, and later runs return it. So put everything that
// must not happen twice, such as a charge, a write or a message, and everything that may differ
// between runs, such as the time, a random value or a row of a database, into a step before the
// first input request that follows it. In a session, and in a task, Step just runs f.
//
//	order, err := server.Step(ctx, c, "order", func(ctx context.Context) (Order, error) {
//		return shop.Order(ctx, server.IdempotencyKey(ctx), item)
//	})
//
// A step is known by its name and, among steps of the same name, by its place in their order. Steps
// that run at the same time need different names: a second one fails, and so does the call. After
// the first input request without a response, a step that has not begun fails with an
// [*InputRequiredError].
//
// The result is encoded as JSON and decoded again, in every run, so that all runs see the same value.
// It is sealed, but it passes through the client, and [Config.MaxState] limits the size of all
// results together: return an id rather than a document. If f fails, Step returns a [*StepError], in
// every run; if ctx ends meanwhile, the failure is not recorded. F must not make input requests or
// run steps.
//
// A client may send a request again with the responses and results of an earlier round. Steps after
// that round then run again, with the same [IdempotencyKey]. What must happen only once even then
// needs a system that recognizes the key.
func Step[T any](ctx context.Context, c *Call, name string, f func(ctx context.Context) (T, error)) (T, error) {
	var result T
	if f == nil {
		return result, fmt.Errorf("server: step %q: nil function", name)
	}
	text, err := c.step(ctx, name, func(ctx context.Context) (json.RawMessage, error) {
		v, err := f(ctx)
		if err != nil {
			return nil, err
		}
		return codec.Marshal(value.Of(&v))
	})
	if err != nil {
		return result, err
	}
	if err := codec.Unmarshal(text, value.Of(&result), codec.AllowSize(text)...); err != nil {
		return *new(T), fmt.Errorf("server: step %q: result: %w", name, err)
	}
	return result, nil
}

// StepError is the failure of the function of a [Step]. It keeps the text of the function's error
// and, if there is one in its chain, the [*jsonrpc.Error]. Other errors in the chain are lost, in
// every run: return what the handler must distinguish as part of the result.
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

// IdempotencyKey returns a key for the [Step] whose function has the context, or "" outside of a
// step. If the step runs again, because a client repeats an earlier round or a task is re-run, the
// key is the same. Other steps and other calls have other keys. Pass it to a system that performs a
// request with a key only once.
func IdempotencyKey(ctx context.Context) string {
	s, _ := ctx.Value(stepKey{}).(*runningStep)
	if s == nil {
		return ""
	}
	return s.idempotencyKey()
}

// stepKey is the key of the step in the context of its function.
type stepKey struct{ lazyctx.Key }

type runningStep struct {
	call, name string
	occurrence int
}

func (s *runningStep) idempotencyKey() string {
	text := binary.AppendUvarint(nil, uint64(len(s.call)))
	text = append(append(text, s.call...), s.name...)
	text = binary.BigEndian.AppendUint64(text, uint64(s.occurrence))
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// inStep returns an error for an operation that the function of a step must not do.
func inStep(ctx context.Context, operation string) error {
	if s, ok := ctx.Value(stepKey{}).(*runningStep); ok {
		return fmt.Errorf("server: %s in step %q", operation, s.name)
	}
	return nil
}

// failure is the JSON form of the failure of a step.
type failure struct {
	Text string          `json:"text"`
	RPC  json.RawMessage `json:"rpc,omitempty"` // a [jsonrpc.Error]
}

// step is [Step] for a function that returns JSON.
func (c *Call) step(ctx context.Context, name string, f func(ctx context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if name == "" {
		return nil, errors.New("server: step without a name")
	}
	if err := inStep(ctx, "step"); err != nil {
		return nil, err
	}
	r := c.recording()
	out, err := r.recorder.Step(ctx, name, func(occurrence int) (replay.Outcome, error) {
		text, err := f(context.WithValue(ctx, stepKey{}, &runningStep{r.call, name, occurrence}))
		if err == nil {
			return replay.Outcome{Result: text}, nil
		}
		if _, required := errors.AsType[*InputRequiredError](err); required || ctx.Err() != nil {
			return replay.Outcome{}, err
		}
		failed := failure{Text: boundary.ErrorText(err)}
		if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok && rpc != nil {
			if failed.RPC, err = codec.Marshal(rpc); err != nil {
				return replay.Outcome{}, err
			}
		}
		text, err = codec.Marshal(value.Of(&failed))
		return replay.Outcome{Result: text, Failed: true}, err
	})
	if _, duplicate := errors.AsType[*replay.DuplicateError](err); duplicate {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err != nil {
		return nil, replayError(err, "")
	}
	if !out.Failed {
		return out.Result, nil
	}
	var failed failure
	if err := codec.Unmarshal(out.Result, value.Of(&failed), codec.AllowSize(out.Result)...); err != nil {
		return nil, err
	}
	failure := &StepError{Step: name, Text: failed.Text}
	if failed.RPC != nil {
		failure.rpc = new(jsonrpc.Error)
		if err := codec.Unmarshal(failed.RPC, failure.rpc); err != nil {
			return nil, err
		}
	}
	return nil, failure
}
