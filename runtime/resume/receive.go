package resume

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// DefaultTTL is how long a token is good if a [Config] does not say otherwise.
const DefaultTTL = 10 * time.Minute

// TTLMeta is the member of a result's _meta that says for how many milliseconds its token is good.
const TTLMeta = "io.github.mcpwire/resumeTtl"

// PartialResultsMeta is the member of a tool's _meta, in tools/list, that is true if its results may come in parts.
const PartialResultsMeta = "io.github.mcpwire/partialResults"

// Config says how a server gives out tokens. The zero value is good for one process.
type Config struct {
	// Keys are secrets of [KeySize] bytes. The first one seals tokens, and each of them opens tokens that
	// it has sealed, so that keys can be changed one after another. Instances with the same keys take each
	// other's tokens. None means a random key: tokens end with the process.
	Keys [][]byte
	// TTL is how long a token is good. The default is [DefaultTTL].
	TTL time.Duration
	// Ended remembers which operations are over. Nil means in memory, for as long as the TTL.
	Ended Ended
	// Logger receives failures of Ended. If it is nil, they go to [slog.Default].
	Logger *slog.Logger
}

// Receive returns middleware for the sessions of a server, one for all of them, by which handlers of
// requests can give their results in parts; see [PartFrom]. It takes a token out of the params before
// the handler sees them, so that these are checked like those of the first request.
//
// A token is encrypted and authenticated, and says nothing to anybody else but how long its state is. It
// is good for requests of the same method with the same params, _meta excepted, on the same authority,
// until it expires or the operation is over: that is when a part was answered without a further token,
// even by an error, unless the request was cancelled or refused for lack of room. Until then it may be
// sent again, through any session. All others are refused with [jsonrpc.CodeInvalidParams], and so is
// each token of a request that asks for a task, which has no parts.
//
// It fails if a key has another size, or the TTL is negative.
func Receive(cfg Config) (session.Middleware, error) {
	if cfg.TTL < 0 {
		return nil, errors.New("resume: the TTL is less than nothing")
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if len(cfg.Keys) == 0 {
		key := make([]byte, KeySize)
		rand.Read(key) // never fails
		cfg.Keys = [][]byte{key}
	}
	tokens, err := newSealer(cfg.Keys)
	if err != nil {
		return nil, err
	}
	if cfg.Ended == nil {
		cfg.Ended = &memory{known: map[string]struct{}{}}
	}
	r := &receiver{ttl: cfg.TTL, tokens: tokens, ended: cfg.Ended, log: boundary.Logger(cfg.Logger)}
	return r.receive, nil
}

// Part is the part of a result that a handler is asked for. It is used by one goroutine at a time, until
// the handler returns.
type Part struct {
	at      point
	resumed bool
	more    bool
	next    []byte
}

type partKey struct{}

// PartFrom returns the part that the handler under ctx is asked for. If ok is false the result cannot
// come in parts: there is no [Receive] around the handler, or it runs as a task.
func PartFrom(ctx context.Context) (p *Part, ok bool) {
	p, ok = ctx.Value(partKey{}).(*Part)
	return p, ok
}

// State returns what the handler gave to [Part.More] with the part before; resumed is false for the first
// part.
func (p *Part) State() (state []byte, resumed bool) { return p.at.state, p.resumed }

// More says that another part follows the one that the handler is about to return, and with what state
// it begins. The state travels in the token, so it should be small: a position, or a key of what the
// server keeps. It does nothing if the handler returns an error, or a result with isError.
func (p *Part) More(state []byte) { p.more, p.next = true, state }

// receiver is the middleware.
type receiver struct {
	ttl    time.Duration
	tokens sealer
	ended  Ended
	log    *slog.Logger
}

func (r *receiver) receive(next session.Handler) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if req.IsNotification() {
			return next(ctx, req)
		}
		part, plain, err := r.begin(ctx, req)
		if err != nil {
			return nil, err
		}
		under := ctx
		if !asTask(req) {
			under = context.WithValue(ctx, partKey{}, part)
		}
		result, err := next(under, plain)
		goesOn := err == nil && part.more
		if goesOn {
			result, goesOn, err = r.goOn(ctx, plain, part, result)
		}
		if part.resumed && !goesOn && ctx.Err() == nil && !refused(err) {
			r.end(ctx, part)
		}
		return result, err
	}
}

// asTask reports whether a request becomes a task, or is served as one.
func asTask(req *session.Request) bool {
	_, wanted := req.Task()
	return wanted && (req.Session == nil || req.Session.TakesTask(req.Method))
}

// refused reports whether an error says that a request was not tried, and may be sent again.
func refused(err error) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && (e.Code == session.CodeOverloaded || e.Code == session.CodeClosing)
}

// begin returns the part that a request asks for, and the request without its token.
func (r *receiver) begin(ctx context.Context, req *session.Request) (*Part, *session.Request, error) {
	token, resumed, err := tokenOf(req.Params, tokenMember)
	if err != nil {
		return nil, nil, invalid(err)
	}
	part := &Part{resumed: resumed}
	if !resumed {
		rand.Read(part.at.id[:]) // never fails
		return part, req, nil
	}
	if part.at, err = r.open(ctx, req, token); err != nil {
		return nil, nil, err
	}
	plain := req.Clone()
	if plain.Params, err = codec.Marshal(&edited{req.Params, tokenMember, nil}); err != nil {
		return nil, nil, invalid(err)
	}
	return part, plain, nil
}

// open returns what a token says, if it is good for the request.
func (r *receiver) open(ctx context.Context, req *session.Request, token string) (point, error) {
	bound, err := binding(req.Method, session.Principal(ctx), req.Params)
	if err != nil {
		return point{}, invalid(err)
	}
	at, err := r.tokens.open(token, bound)
	if err != nil {
		return point{}, invalid(err)
	}
	if !time.Now().Before(at.expires) {
		return point{}, invalid(errors.New("the resume token has expired"))
	}
	over, err := r.ended.Has(ctx, at.name())
	if err != nil {
		return point{}, err
	}
	if over {
		return point{}, invalid(errors.New("the resume token is of an operation that is over"))
	}
	return at, nil
}

// goOn returns a result with a token for the part after it, unless it is an error: then ok is false.
func (r *receiver) goOn(ctx context.Context, req *session.Request, part *Part, result codec.Encoder) (with codec.Encoder, ok bool, err error) {
	text := json.RawMessage(`{}`)
	if result != nil {
		if text, err = codec.Marshal(result); err != nil {
			return nil, false, err
		}
	}
	if isError(text) {
		return session.Raw(text), false, nil
	}
	bound, err := binding(req.Method, session.Principal(ctx), req.Params)
	if err != nil {
		return nil, false, err
	}
	if text, err = session.AddMeta(text, TTLMeta, codec.IntScalar(r.ttl.Milliseconds())); err != nil {
		return nil, false, err
	}
	token := r.tokens.seal(point{part.at.id, time.Now().Add(r.ttl), part.next}, bound)
	if len(token) > maxToken {
		return nil, false, fmt.Errorf("resume: the state of the next part is too long (%d bytes)", len(part.next))
	}
	return &edited{text, nextMember, &token}, true, nil
}

// isError reports whether a result is that of a tool that has failed.
func isError(result json.RawMessage) bool {
	r := codec.Borrow(result, codec.AllowSize(result)...)
	defer r.Release()
	text, kind, ok := r.PeekMember("isError")
	return ok && kind == codec.KindBool && text == "true"
}

// end notes that the operation is over. The last part is answered even if that fails.
func (r *receiver) end(ctx context.Context, part *Part) {
	if err := r.ended.Add(ctx, part.at.name(), time.Now().Add(r.ttl)); err != nil {
		r.log.Error("tokens of a completed operation stay good until they expire", "error", err)
	}
}

// name is how an operation is called in an [Ended].
func (p *point) name() string { return base64.RawURLEncoding.EncodeToString(p.id[:]) }

// invalid refuses a request.
func invalid(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}
