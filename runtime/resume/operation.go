package resume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// ErrOver says that an operation is complete, or has failed: its token has expired.
var ErrOver = errors.New("resume: the operation is over")

// Operation is a request whose result comes in parts. It may be used by many goroutines; one part is
// asked for at a time. It holds nothing that must be closed: who does not want to go on just does not,
// and the server forgets the operation after a while.
type Operation struct {
	caller jsonrpc.Caller
	method string
	params json.RawMessage // of the first request; an object

	mu    sync.Mutex // held while a part is asked for
	state sync.Mutex // guards what follows
	token string
	known bool // there is a token
	over  bool
}

// Start returns the operation that a request begins. Nothing is sent yet. Params may be nil; it fails if
// they are no object, or have a token already.
func Start(caller jsonrpc.Caller, method string, params codec.Encoder) (*Operation, error) {
	raw := json.RawMessage(`{}`)
	if params != nil {
		var err error
		if raw, err = codec.Marshal(params); err != nil {
			return nil, err
		}
	}
	r := codec.Borrow(raw, codec.AllowSize(raw)...)
	object := r.Kind() == codec.KindObject
	_, _, taken := r.PeekMember(tokenMember)
	r.Release()
	if !object || taken {
		return nil, fmt.Errorf("resume: params of %s are no object without a %s", method, tokenMember)
	}
	return &Operation{caller: caller, method: method, params: raw}, nil
}

// Resume returns the operation that a request has begun and a token continues, such as one that was
// kept from [Operation.Token] over a reconnect. The request must be the same as then. Nothing is
// sent yet. Store the Operation's latest token, and drop it once the Operation has ended: the
// server refuses older tokens.
func Resume(caller jsonrpc.Caller, method string, params codec.Encoder, token string) (*Operation, error) {
	o, err := Start(caller, method, params)
	if err == nil {
		o.token, o.known = token, true
	}
	return o, err
}

// TokenOf returns the token that a result has for the next part; ok is false if it has none. It is for who has got the
// first part in another way than through an [Operation], and goes on with [Resume].
func TokenOf(result codec.Encoder) (token string, ok bool, err error) {
	raw, err := codec.Marshal(result)
	if err != nil {
		return "", false, err
	}
	return tokenOf(raw, nextMember)
}

// Token returns the token for the next part; ok is false before the first part has come, and when the
// operation is over. It means nothing to anybody but the server.
func (o *Operation) Token() (token string, ok bool) {
	o.state.Lock()
	defer o.state.Unlock()
	return o.token, o.known && !o.over
}

// Next asks for the next part, by a request that differs from the first one in its token alone, and
// returns it as the server has sent it. After the last part it fails with [ErrOver], and so it does
// once the server has answered with an error. After [session.CodeOverloaded] and [session.CodeClosing],
// and after an error of the way there, such as the end of ctx, the operation is as it was: the part may
// be asked for again.
func (o *Operation) Next(ctx context.Context) (json.RawMessage, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.Lock()
	token, known, over := o.token, o.known, o.over
	o.state.Unlock()
	if over {
		return nil, ErrOver
	}
	var params codec.Encoder = session.Raw(o.params)
	if known {
		params = &edited{o.params, tokenMember, &token}
	}
	result, err := o.caller.Call(ctx, o.method, params)
	if err != nil {
		if _, answered := errors.AsType[*jsonrpc.Error](err); answered && !refused(err) {
			o.note("", false)
		}
		return nil, err
	}
	next, more, err := tokenOf(result, nextMember)
	if err != nil {
		return nil, err
	}
	o.note(next, more)
	return result, nil
}

// note notes how the operation goes on, if it does.
func (o *Operation) note(token string, more bool) {
	o.state.Lock()
	defer o.state.Unlock()
	o.token, o.known, o.over = token, more, !more
}

// Parts goes over the parts that are left, until no token comes. An error ends it.
func (o *Operation) Parts(ctx context.Context) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for {
			part, err := o.Next(ctx)
			if err == ErrOver || !yield(part, err) || err != nil {
				return
			}
		}
	}
}
