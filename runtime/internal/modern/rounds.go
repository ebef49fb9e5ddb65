package modern

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// ErrRounds is returned if a server asks for input more often than the limit allows.
var ErrRounds = errors.New("limit of input rounds reached")

// CallInRounds sends a request until its result is complete. Each time that the result asks for
// input, it collects the responses from respond and sends the request again (MCP multi round-trip
// requests, "Client Requirements"). It fails with [ErrRounds] after limit such results; a negative
// limit means none. asked reports whether there was more than one round.
func CallInRounds(ctx context.Context, to jsonrpc.Caller, method string, params codec.Encoder, limit int, respond func(context.Context, []InputRequest) ([]InputResponse, error)) (result json.RawMessage, asked bool, err error) {
	result, err = to.Call(ctx, method, params)
	if err != nil || !TakesInput(method) {
		return result, false, err
	}
	var wait time.Duration // before the next round without input requests
	for round := 1; ; round++ {
		required, ok := ReadRequired(result)
		if !ok {
			return result, round > 1, nil
		}
		if limit > 0 && round > limit {
			return nil, true, ErrRounds
		}
		again := &retry{params: params, state: required.State}
		if required.Requests != nil {
			wait = 0
			if again.responses, err = respond(ctx, required.Requests); err != nil {
				return nil, true, err
			}
		} else if wait, err = pause(ctx, wait); err != nil {
			return nil, true, err
		}
		if result, err = to.Call(ctx, method, again); err != nil {
			return nil, true, err
		}
	}
}

// Delays before rounds without input requests. The first such round follows at once.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// pause waits for d, and returns the next delay. It fails with the cause of ctx.
func pause(ctx context.Context, d time.Duration) (next time.Duration, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return min(max(2*d, firstPause), maxPause), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// InputRequired is what a result asks for.
type InputRequired struct {
	Requests []InputRequest  // nil if it asks for no input
	State    json.RawMessage // the text of requestState; nil if the result has none
}

// InputRequest is an input request in a result.
type InputRequest struct {
	Key    string
	Method string
	Params json.RawMessage // nil for none
}

// ReadRequired returns what a result asks for. ok is false if it is complete. The resultType must
// have been checked.
func ReadRequired(result json.RawMessage) (r InputRequired, ok bool) {
	kind, found := codec.Member(result, "resultType")
	if !found || string(kind) != `"`+ResultInputRequired+`"` {
		return InputRequired{}, false
	}
	r.State, _ = codec.Member(result, "requestState")
	requests, found := codec.Member(result, "inputRequests")
	if !found {
		return r, true
	}
	r.Requests = ReadInputRequests(requests)
	return r, true
}

// ReadInputRequests returns the input requests in the value of inputRequests.
func ReadInputRequests(text json.RawMessage) (requests []InputRequest) {
	codec.ReadPart(text, func(reader *wire.Reader) {
		for reader.Object(); reader.More(); {
			in := InputRequest{Key: reader.Key()}
			text := reader.Raw()
			if method, ok := codec.Member(text, "method"); ok {
				codec.ReadPart(method, func(m *wire.Reader) { in.Method = m.Text() })
			}
			in.Params, _ = codec.Member(text, "params")
			requests = append(requests, in)
		}
	})
	return requests
}

// InputResponse is the response to an input request.
type InputResponse struct {
	Key  string
	Text json.RawMessage
}

// retry is the params of a request that is sent again with input.
type retry struct {
	params    codec.Encoder
	responses []InputResponse // nil for none
	state     json.RawMessage // nil for none
}

// Unwrap returns the params without the input, for middleware that looks at params.
func (r *retry) Unwrap() codec.Encoder { return r.params }

// EncodeJSON implements [codec.Encoder].
func (r *retry) EncodeJSON(w *wire.Writer) {
	params, err := codec.Marshal(r.params)
	if err != nil {
		w.Fail("", err)
		return
	}
	w.Begin()
	err = codec.ReadPart(params, func(reader *wire.Reader) {
		for reader.Object(); reader.More(); {
			name := reader.Key()
			if raw := reader.Raw(); !slices.Contains([]string{"inputResponses", "requestState"}, name) {
				w.MapKey(name)
				w.Raw(raw)
			}
		}
	})
	w.Fail("", err)
	if r.responses != nil {
		w.Key(`,"inputResponses":`)
		w.Begin()
		for _, response := range r.responses {
			w.MapKey(response.Key)
			w.Raw(response.Text)
		}
		w.End()
	}
	if r.state != nil {
		w.Key(`,"requestState":`)
		w.Raw(r.state)
	}
	w.End()
}
