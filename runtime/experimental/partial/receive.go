package partial

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
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// DefaultTTL is the lifetime of a token if [Options.TTL] is zero.
const DefaultTTL = 10 * time.Minute

// TTLMeta is the member of a result's _meta with the lifetime of its token in milliseconds.
const TTLMeta = "io.github.mcpwire/resumeTtl"

// PartialResultsMeta is the member of a tool's _meta, in tools/list, that is true if the tool's
// results may come in parts.
const PartialResultsMeta = "io.github.mcpwire/partialResults"

// Announce sets [PartialResultsMeta] in the description of a tool, so that clients know before a
// call that they can request further parts. Pass it to server.DefineTool. It does not change the
// _meta that the description has, but replaces it.
func Announce(def *mcp.Tool) {
	meta := new(mcp.MetaObject)
	if def.Meta != nil {
		*meta = *def.Meta
	}
	meta.Extra.Set(PartialResultsMeta, json.RawMessage("true"))
	def.Meta = meta
}

// Options configures the tokens of a server. The zero value works for a server of one process.
type Options struct {
	// Keys are secrets of [KeySize] bytes. The first one seals tokens, and each of them opens
	// tokens, so that keys can be rotated. Instances with the same keys accept each other's tokens.
	// Without keys, Receive makes a random one, and tokens are valid only in this process.
	Keys [][]byte
	// TTL is the lifetime of a token. The default is [DefaultTTL].
	TTL time.Duration
	// Ended stores the operations that have ended. If it is nil, the process stores them in memory
	// for the TTL.
	Ended Ended
	// Logger receives failures of Ended. If it is nil, they go to [slog.Default].
	Logger *slog.Logger
}

// Receive returns middleware with which handlers of requests can return their results in parts; see
// [PartFrom]. One middleware serves all sessions of a server. It removes the token from the params
// before the handler sees them, so that they are validated like those of the first request.
//
// A token is encrypted and authenticated; it reveals only the length of its state. It is valid for
// requests of the same method, with the same params except _meta, by the same principal, through
// any session and any number of times, until it expires or the operation ends. An operation ends
// with a response that has no further token, errors included, unless the request was cancelled or
// rejected as overloaded. Invalid tokens are rejected with [jsonrpc.CodeInvalidParams], and so is
// every token of a request that is run as a task, which has no parts.
//
// Receive fails if a key does not have KeySize bytes, or the TTL is negative.
func Receive(cfg Options) (session.Middleware, error) {
	if cfg.TTL < 0 {
		return nil, fmt.Errorf("partial: negative TTL (%v)", cfg.TTL)
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

// Part is the part of a result that a handler is to return. It is for one goroutine at a time,
// until the handler returns.
type Part struct {
	at      point
	resumed bool
	more    bool
	next    []byte
}

type partKey struct{}

// PartFrom returns the part that the handler with context ctx is to return. If ok is false, the
// result cannot come in parts: the session lacks the middleware of [Receive], or the request runs
// as a task.
func PartFrom(ctx context.Context) (p *Part, ok bool) {
	p, ok = ctx.Value(partKey{}).(*Part)
	return p, ok
}

// State returns the state that the handler gave to [Part.More] with the previous part. resumed is
// false for the first part.
func (p *Part) State() (state []byte, resumed bool) { return p.at.state, p.resumed }

// More announces that another part follows the one that the handler is about to return. The next
// part begins with the given state, which travels in the token and should be small: a position, or
// a key of something that the server stores. More has no effect if the handler returns an error, or
// a result with isError.
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
		more := err == nil && part.more
		if more {
			result, more, err = r.withToken(ctx, plain, part, result)
		}
		if part.resumed && !more && ctx.Err() == nil && !session.IsTemporary(err) {
			r.end(ctx, part)
		}
		return result, err
	}
}

// asTask reports whether a request becomes a task, or is served as one.
func asTask(req *session.Request) bool {
	_, wanted := req.Internals(boundary.Caller{}).Task()
	return wanted && (req.Session == nil || req.Session.Internals(boundary.Caller{}).TakesTask(req.Method))
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

// open returns the content of a token, if it is valid for the request.
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
	ended, err := r.ended.Has(ctx, at.name())
	if err != nil {
		return point{}, err
	}
	if ended {
		return point{}, invalid(errors.New("the operation of the resume token has ended"))
	}
	return at, nil
}

// withToken returns a result with a token for the next part. If the result is an error, ok is
// false.
func (r *receiver) withToken(ctx context.Context, req *session.Request, part *Part, result codec.Encoder) (with codec.Encoder, ok bool, err error) {
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
	if text, err = methods.AddMeta(text, TTLMeta, codec.IntScalar(r.ttl.Milliseconds())); err != nil {
		return nil, false, err
	}
	token := r.tokens.seal(point{part.at.id, time.Now().Add(r.ttl), part.next}, bound)
	if len(token) > maxToken {
		return nil, false, fmt.Errorf("partial: state of the next part is too long (%d bytes)", len(part.next))
	}
	return &edited{text, nextMember, &token}, true, nil
}

// isError reports whether a result is that of a tool that has failed.
func isError(result json.RawMessage) bool {
	value, _ := codec.Member(result, "isError")
	return string(value) == "true"
}

// end stores that the operation has ended. If that fails, the last part is returned nevertheless.
func (r *receiver) end(ctx context.Context, part *Part) {
	if err := r.ended.Add(ctx, part.at.name(), time.Now().Add(r.ttl)); err != nil {
		// Tokens of the operation stay valid until they expire.
		r.log.Error("completed operation not stored", "error", err)
	}
}

// name is the name of an operation in an [Ended].
func (p *point) name() string { return base64.RawURLEncoding.EncodeToString(p.id[:]) }

// invalid returns the error response for an invalid request.
func invalid(err error) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
}
