// Package jetstreamstore stores the sessions and event streams of Streamable HTTP in NATS
// JetStream. Any of several processes behind a plain load balancer can then serve them. It needs
// nats-server 2.12 or newer.
//
// # Store
//
// A [Store] is a [streamable.SessionStore]. All sessions of a fleet are in one stream of JetStream.
// [Open] creates the stream with [Options].Replicas replicas, a maximum size, and a maximum age.
// Its metadata has the version of the schema. The id of a session is a secret, so subjects contain
// a hash of it. A second stream has a short message for each process that has joined.
//
// Append returns when a majority of the replicas has the event. By default, a server synchronizes
// its files with the disk every two minutes (sync_interval). With one replica, a crash of the
// machine may lose the events since then.
//
// # Several processes
//
// [Store.Join] returns a [streamable.Locator] for [streamable.HandlerOptions]. Each session has one
// holder; the other processes forward requests of the session to it. The claim of the holder is a
// message in the same stream as the events, and JetStream accepts a write to the session only if
// that message is still the newest claim. So all writes of a process that was replaced fail,
// independent of its clock. This protects only Stores that have joined: all processes that share a
// stream must join.
//
// A [Bus] passes changes of lists and resources between the servers of a fleet.
//
// # Permissions
//
// A user needs to publish to mcp-sessions.>, mcp-sessions-processes.*,
// $JS.API.DIRECT.GET.mcp-sessions and, for each of the streams STREAM mcp-sessions and
// mcp-sessions-processes, to $JS.API.STREAM.*.STREAM and $JS.API.STREAM.MSG.*.STREAM; and to
// subscribe to its inbox. A Bus publishes and subscribes to mcp-bus. Calls that lack a permission
// fail like those that have no answer; NATS reports the violation to [nats.ErrorHandler].
package jetstreamstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// ErrSchema is returned by [Open] if another version of this package, or another program, has
// created the stream.
var ErrSchema = errors.New("jetstreamstore: unknown schema")

// Options configures a [Store]. The zero value means the defaults.
type Options struct {
	// Name is the name of the stream, and the first token of its subjects: letters, digits, - and
	// _; default mcp-sessions. The stream of processes is called Name-processes. The Stores of one
	// fleet have the same name, and each fleet has another name.
	Name string

	// Replicas is the number of servers that store each message: 1, 3 or 5. With 3, any one of the
	// servers may fail. If it is 0, existing streams stay as they are, and new streams have 1
	// replica. All processes should set the same value: each of them changes existing streams to
	// its own.
	Replicas int

	// MaxBytes is the maximum size of the stream in bytes; default 1 GiB. When the
	// stream is full, a write deletes the oldest events of all sessions. If sessions without events
	// fill the stream, writes fail.
	MaxBytes int64

	// MaxSessionBytes is the maximum size of the events and unanswered requests of a session in
	// bytes; default 8 MiB, and at most MaxBytes. Above it, a write deletes the
	// oldest events of the session. A single event above it is rejected with
	// [transport.ErrTooLong].
	MaxSessionBytes int

	// MaxAge is the minimum time for which an unused session is stored, from its last change or
	// Touch on; default 24 hours, at least a second. JetStream deletes the session no later
	// than twice MaxAge after that. It deletes events of sessions in use twice MaxAge after they
	// were sent.
	MaxAge time.Duration

	// Timeout is the maximum time for which a write or a read waits for JetStream, for instance
	// during an election of a leader; default 5 seconds. An earlier deadline of the context
	// applies.
	Timeout time.Duration

	// Logger receives events that are not returned as errors. If it is nil, warnings and errors go
	// to [slog.Default].
	Logger *slog.Logger
}

// Defaults of [Options].
const (
	defaultName    = "mcp-sessions"
	defaultMaxAge  = 24 * time.Hour
	defaultTimeout = 5 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = defaultName
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = 8 << 20
	}
	o.MaxSessionBytes = int(min(int64(o.MaxSessionBytes), o.MaxBytes))
	if o.MaxAge <= 0 {
		o.MaxAge = defaultMaxAge
	}
	o.MaxAge = max(o.MaxAge, time.Second)
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// The schema of the stream, in its metadata.
const (
	schemaKey     = "mcpwire-sessions-schema"
	schemaVersion = "1"
)

// Store is a [streamable.SessionStore] in JetStream. Create a Store with [Open]; it needs no Close.
// Its methods may be called concurrently.
type Store struct {
	streamable.SessionStore
	streams *store
}

// store implements [streamable.SessionStore].
type store struct {
	o      Options
	js     jetstream.JetStream
	stream jetstream.Stream
	api    string // prefix of the subjects of the JetStream API
	now    func() time.Time

	mu       sync.Mutex
	locator  *locator          // nil before Join
	sessions map[string]*entry // by token
	dropAt   int               // number of sessions at which old entries are dropped
}

var _ streamable.SessionStore = (*store)(nil)

// Open opens the store, and creates its stream if it does not exist. If Replicas is set, or
// MaxBytes or MaxAge with their defaults, and an existing stream has another value, Open changes
// the stream. It fails with [ErrSchema] if the stream is not a stream of this version of the
// package. It fails unless the connection of js was made with nats.MaxReconnects(-1): by default, a
// connection is closed for ever after an outage of about two minutes.
func Open(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	s, err := open(ctx, js, o)
	if err != nil {
		return nil, err
	}
	return &Store{SessionStore: s, streams: s}, nil
}

func open(ctx context.Context, js jetstream.JetStream, o Options) (*store, error) {
	if o := &js.Conn().Opts; !o.AllowReconnect || o.MaxReconnect >= 0 {
		return nil, errors.New("jetstreamstore: open: the connection gives up after some attempts to reconnect: connect with nats.MaxReconnects(-1)")
	}
	o = o.withDefaults()
	s := &store{o: o, js: js, api: apiPrefix(js.Options()), now: time.Now, sessions: map[string]*entry{}}
	stream, err := s.openStream(ctx, jetstream.StreamConfig{
		Name:        o.Name,
		Description: "Sessions of MCP Streamable HTTP",
		Subjects:    []string{o.Name + ".>"},
		Replicas:    o.Replicas,
		MaxBytes:    o.MaxBytes,
		MaxAge:      2 * o.MaxAge,
		Duplicates:  min(2*time.Minute, 2*o.MaxAge),
		// With DiscardOld, openings and claims would be deleted like events; see makeRoom.
		Discard:     jetstream.DiscardNew,
		AllowRollup: true,
		AllowDirect: true,
		AllowMsgTTL: true,
		Metadata:    map[string]string{schemaKey: schemaVersion},
	})
	if err != nil {
		return nil, err
	}
	s.stream = stream
	return s, nil
}

// openStream returns the stream of the given configuration. It creates the stream if it does not
// exist, and changes the limits of an existing one that differ from those that want has.
func (s *store) openStream(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	limited, cancel := s.limitTime(ctx)
	defer cancel()
	for {
		attempt, cancel := s.attempt(limited)
		stream, err := s.tryStream(attempt, want)
		cancel()
		switch {
		case err == nil:
			return stream, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("jetstreamstore: open stream %q: %w", want.Name, context.Cause(ctx))
		case !isTransient(err) && !hasCode(err, errCodeUnavailable) && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return nil, fmt.Errorf("jetstreamstore: open stream %q: %w", want.Name, err)
		case !sleep(limited):
			return nil, fmt.Errorf("jetstreamstore: open stream %q: no answer after %v: %w", want.Name, s.o.Timeout, err)
		}
	}
}

// tryStream makes one attempt of openStream. The servers answer none of several equal requests that
// create a stream at once, so a later attempt finds the stream.
func (s *store) tryStream(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		want.Replicas = max(want.Replicas, 1)
		return s.js.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo().Config
	if version := have.Metadata[schemaKey]; version != want.Metadata[schemaKey] {
		return nil, fmt.Errorf("%w: version %q, not %q", ErrSchema, version, want.Metadata[schemaKey])
	}
	changed := have
	if want.Replicas > 0 {
		changed.Replicas = want.Replicas
	}
	if want.MaxBytes > 0 {
		changed.MaxBytes = want.MaxBytes
	}
	if want.MaxAge > 0 {
		changed.MaxAge, changed.Duplicates = want.MaxAge, want.Duplicates
	}
	if changed.Replicas == have.Replicas && changed.MaxBytes == have.MaxBytes && changed.MaxAge == have.MaxAge {
		return stream, nil
	}
	return s.js.UpdateStream(ctx, changed)
}

// apiPrefix returns the prefix of the subjects of the JetStream API, with a dot at its end.
func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	}
	return jetstream.DefaultAPIPrefix
}

// limitTime returns a context that ends after Timeout.
func (s *store) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.o.Timeout)
}

// The subjects of a session are NAME.s.TOKEN.KIND, those of its streams NAME.s.TOKEN.KIND.STREAM.
// Openings, states and claims have one message each, the newest. See processSubject for the other
// stream.
const (
	kindOpening = "o" // Opening, as JSON
	kindState   = "k" // the state of its owner
	kindClaim   = "c" // the process that holds the session; see claim
	kindBegin   = "b" // the ids of the requests of a stream, until its last event
	kindEvent   = "e" // events of a stream; see encodeEvent
)

// token returns the subject token of a session.
func token(session string) string {
	sum := sha256.Sum256([]byte(session))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// subject returns the subject of a session. kind ">" stands for all of them.
func (s *store) subject(token, kind string) string {
	return s.o.Name + ".s." + token + "." + kind
}

// streamSubject returns the subject of a stream of a session. A client chooses the name that it
// resumes, which may have any characters.
func (s *store) streamSubject(token, kind, stream string) string {
	return s.subject(token, kind) + ".s" + base64.RawURLEncoding.EncodeToString([]byte(stream))
}

// parseSubject returns the kind of a message of a session, and its stream if it has one.
func (s *store) parseSubject(subject string) (kind, stream string, ok bool) {
	rest := strings.Split(strings.TrimPrefix(subject, s.o.Name+".s."), ".")
	switch {
	case len(rest) == 2:
		return rest[1], "", true
	case len(rest) == 3 && rest[2] != "":
		name, err := base64.RawURLEncoding.DecodeString(rest[2][1:])
		return rest[1], string(name), err == nil
	}
	return "", "", false
}
