package partial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// ErrEnded is the error of an operation that is complete or has failed. Its token is no longer
// valid.
var ErrEnded = errors.New("partial: the operation has ended")

// Operation is a request whose result comes in parts. It may be used by many goroutines; it
// requests one part at a time. It needs no Close: a client that wants no more parts stops calling
// Next.
type Operation struct {
	caller jsonrpc.Caller
	method string
	params json.RawMessage // of the first request; an object

	mu    sync.Mutex // held while a part is requested
	state sync.Mutex // guards what follows
	token string
	known bool // there is a token
	ended bool
}

// Start returns the operation that a request begins. It sends nothing. Params may be nil. Start
// fails if they are not an object, or already have a token.
func Start(caller jsonrpc.Caller, method string, params codec.Encoder) (*Operation, error) {
	raw := json.RawMessage(`{}`)
	if params != nil {
		var err error
		if raw, err = codec.Marshal(params); err != nil {
			return nil, err
		}
	}
	var object, taken bool
	codec.ReadPart(raw, func(r *wire.Reader) {
		object = r.Kind() == wire.KindObject
		_, _, taken = r.PeekMember(tokenMember)
	})
	if !object || taken {
		return nil, fmt.Errorf("partial: params of %s must be an object without member %q", method, tokenMember)
	}
	return &Operation{caller: caller, method: method, params: raw}, nil
}

// Continue returns the operation that began with the given request and continues with token, such
// as one that [Operation.Token] returned before a reconnect. The request must be the same as the
// first one. Continue sends nothing. Store the Operation's latest token, and delete it when the
// Operation has ended: the server rejects older tokens.
func Continue(caller jsonrpc.Caller, method string, params codec.Encoder, token string) (*Operation, error) {
	o, err := Start(caller, method, params)
	if err == nil {
		o.token, o.known = token, true
	}
	return o, err
}

// TokenOf returns the token that a result has for the next part; ok is false if it has none. Use it
// with [Continue] if the first part did not come through an [Operation].
func TokenOf(result codec.Encoder) (token string, ok bool, err error) {
	raw, err := codec.Marshal(result)
	if err != nil {
		return "", false, err
	}
	return tokenOf(raw, nextMember)
}

// Token returns the token for the next part. It is opaque to the client. ok is false before the
// first part has arrived, and after the operation has ended.
func (o *Operation) Token() (token string, ok bool) {
	o.state.Lock()
	defer o.state.Unlock()
	return o.token, o.known && !o.ended
}

// Next requests the next part and returns it as the server sent it. The request differs from the
// first one in its token alone. After the last part, and after the server has answered with an
// error, Next fails with [ErrEnded]. Errors that are temporary by [session.IsTemporary] and errors
// of the connection or of ctx leave the operation unchanged: the same part can be requested again.
func (o *Operation) Next(ctx context.Context) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.Lock()
	token, known, ended := o.token, o.known, o.ended
	o.state.Unlock()
	if ended {
		return nil, ErrEnded
	}
	var params codec.Encoder = session.Raw(o.params)
	if known {
		params = &edited{o.params, tokenMember, &token}
	}
	result, err := o.caller.Call(ctx, o.method, params)
	if err != nil {
		if _, answered := errors.AsType[*jsonrpc.Error](err); answered && !session.IsTemporary(err) {
			o.advance("", false)
		}
		return nil, err
	}
	next, more, err := tokenOf(result, nextMember)
	if err != nil {
		return nil, err
	}
	o.advance(next, more)
	return result, nil
}

// advance records the token for the next part. If more is false, the operation has ended.
func (o *Operation) advance(token string, more bool) {
	o.state.Lock()
	defer o.state.Unlock()
	o.token, o.known, o.ended = token, more, !more
}

// Parts iterates over the remaining parts. An error ends the iteration.
func (o *Operation) Parts(ctx context.Context) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for {
			part, err := o.Next(ctx)
			if err == ErrEnded || !yield(part, err) || err != nil {
				return
			}
		}
	}
}
