// Package jetstreamstore stores the sessions and event streams of Streamable HTTP in NATS
// JetStream, so that any of several processes behind a plain load balancer serves them. It needs
// NATS 2.12 or later.
//
// # Store
//
// A [Store] is a [streamable.SessionStore]. All sessions of a fleet are in one stream of JetStream,
// which [Open] creates: with [Options].Replicas copies, a size limit, and a maximum age. Its
// metadata has the version of the schema. Subjects contain a hash of the session id, not the id,
// which is a secret. A second stream has a short message for each process that has joined.
//
// Append returns when a majority of the replicas has the event. With one replica, a crash of the
// machine may lose the events of the last two minutes, because the engine synchronizes with the
// disk at that interval (sync_interval).
//
// # Several processes
//
// [Store.Join] returns a [streamable.Locator] for [streamable.HandlerOptions]. Each session has one
// holder, which the other processes forward its requests to. The claim of the holder is a message
// in the same stream as the events, and JetStream accepts a write to the session only if that
// message is still the newest claim. A process that was replaced, for instance because it was cut
// off, can write nothing more, whatever its clock says. That holds for Stores that have joined: of
// processes that share a stream, all must join.
//
// A [Bus] passes changes of lists and resources between the servers of a fleet.
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

// ErrSchema is returned if the stream was written by a newer version of this package, or is not a
// stream of this package.
var ErrSchema = errors.New("jetstreamstore: unknown schema")

// Options configures a [Store]. The zero value means the defaults.
type Options struct {
	// Name is the name of the stream, and the first token of its subjects; default [DefaultName].
	// The stream of processes is called Name-processes. The Stores of a fleet have the same name,
	// and other fleets have others. It has letters, digits, - and _.
	Name string

	// Replicas is the number of servers that store each message: 1, 3 or 5; default 1. With 3, any
	// one of the servers may fail.
	Replicas int

	// MaxBytes limits the size of the stream; default [DefaultMaxBytes]. Above it, the oldest
	// events of all sessions are deleted. If sessions without events fill it, writes fail.
	MaxBytes int64

	// MaxSessionBytes limits the events and unanswered requests of a session; default
	// [DefaultSessionBytes], and at most MaxBytes. Above it, the oldest events of the session are
	// deleted. A longer event is rejected with [transport.ErrTooLong].
	MaxSessionBytes int

	// MaxAge is how long an unused session is stored at least; default [DefaultMaxAge], at least a
	// second. It counts from the last change or Touch. JetStream deletes the session no later than
	// twice MaxAge after it. Events of sessions in use are deleted twice MaxAge after they were
	// sent.
	MaxAge time.Duration

	// Timeout limits how long a write or a read waits for JetStream, for instance while it elects
	// a leader, if the context has no earlier deadline; default [DefaultTimeout].
	Timeout time.Duration

	// Logger receives events that are not returned as errors. If it is nil, warnings and errors go
	// to [slog.Default].
	Logger *slog.Logger
}

// Defaults of [Options].
const (
	DefaultName         = "mcp-sessions"
	DefaultMaxBytes     = 1 << 30
	DefaultSessionBytes = 8 << 20
	DefaultMaxAge       = 24 * time.Hour
	DefaultTimeout      = 5 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.Replicas <= 0 {
		o.Replicas = 1
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = DefaultSessionBytes
	}
	o.MaxSessionBytes = int(min(int64(o.MaxSessionBytes), o.MaxBytes))
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	o.MaxAge = max(o.MaxAge, time.Second)
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
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

// Store stores sessions and streams in JetStream. It is a [streamable.SessionStore]. Open one with
// [Open]. It has nothing to close. Its methods may be called concurrently.
type Store struct {
	o      Options
	js     jetstream.JetStream
	stream jetstream.Stream
	api    string // prefix of the subjects of the JetStream API
	now    func() time.Time

	mu       sync.Mutex
	locator  *Locator          // nil before Join
	sessions map[string]*entry // by token
	dropAt   int               // number of sessions at which old entries are dropped
}

var _ streamable.SessionStore = (*Store)(nil)

// Open opens the store, and creates its stream if there is none. If Replicas, MaxBytes or MaxAge
// differ from those of an existing stream, it changes the stream. It fails with [ErrSchema] if the
// stream belongs to something else.
func Open(ctx context.Context, js jetstream.JetStream, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{o: o, js: js, api: apiPrefix(js.Options()), now: time.Now, sessions: map[string]*entry{}}
	ctx, cancel := s.limitTime(ctx)
	defer cancel()
	want := jetstream.StreamConfig{
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
	}
	stream, err := js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = s.adopt(ctx, want)
	}
	if err != nil {
		return nil, fmt.Errorf("jetstreamstore: stream %q: %w", o.Name, err)
	}
	s.stream = stream
	return s, nil
}

// adopt returns the existing stream, with the limits of want.
func (s *Store) adopt(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := s.js.Stream(ctx, want.Name)
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo().Config
	if version := have.Metadata[schemaKey]; version != schemaVersion {
		return nil, fmt.Errorf("%w: version %q, not %q", ErrSchema, version, schemaVersion)
	}
	if have.Replicas == want.Replicas && have.MaxBytes == want.MaxBytes && have.MaxAge == want.MaxAge {
		return stream, nil
	}
	have.Replicas, have.MaxBytes, have.MaxAge, have.Duplicates = want.Replicas, want.MaxBytes, want.MaxAge, want.Duplicates
	return s.js.UpdateStream(ctx, have)
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
func (s *Store) limitTime(ctx context.Context) (context.Context, context.CancelFunc) {
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
func (s *Store) subject(token, kind string) string {
	return s.o.Name + ".s." + token + "." + kind
}

// streamSubject returns the subject of a stream of a session. A client chooses the name that it
// resumes, which may have any characters.
func (s *Store) streamSubject(token, kind, stream string) string {
	return s.subject(token, kind) + ".s" + base64.RawURLEncoding.EncodeToString([]byte(stream))
}

// parseSubject returns the kind of a message of a session, and its stream if it has one.
func (s *Store) parseSubject(subject string) (kind, stream string, ok bool) {
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
