package jetstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/internal/watch"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Errors of a [Store], possibly wrapped.
var (
	// ErrFull reports that a stream or its servers have no space left.
	ErrFull = errors.New("jetstream: stream is full")
	// ErrUnavailable reports that the servers did not answer within [Options.Timeout]. A write may
	// have happened nevertheless.
	ErrUnavailable = errors.New("no answer")
	// ErrSchema reports that the streams have another schema than this version of the package.
	ErrSchema = errors.New("jetstream: schema of streams is not supported")
)

// Options are the options of [Open]. The zero value is usable for tests.
type Options struct {
	// Name is the first part of the names of all streams and subjects: ASCII letters, digits, "-"
	// and "_". It is "TASKS" if it is "".
	Name string
	// Replicas is the number of replicas of each stream, 1 to 5. If it is 0, existing streams stay
	// as they are, and new streams have 1 replica. Use 3 or 5 to survive the loss of servers.
	Replicas int
	// Storage is where the servers store new streams: files by default.
	Storage jetstream.StorageType
	// Partitions is the number of partitions of a new store, 1 to 1024; the default is 1. Each
	// partition consists of two streams with a leader each. The number cannot be changed later, and
	// is ignored if the streams exist.
	Partitions int
	// MaxBytes is the maximum size of each stream in bytes. If it is 0, existing streams stay as
	// they are, and new streams have no limit. New tasks fail with ErrFull once a stream has less
	// than a sixteenth left, which is for the tasks that exist.
	MaxBytes int64
	// Timeout is the time for which a call repeats its requests while the servers do not answer.
	// Then the call fails with ErrUnavailable. The default is 30 seconds.
	Timeout time.Duration
	// Observe is called after each call of a method of [task.Store] except Wait, Scan and Close,
	// with the name of the operation in lower case, its duration and its error. It may be nil. It
	// is called concurrently, and must not block.
	Observe func(operation string, took time.Duration, err error)
}

// Store is a store of tasks in streams. Create one with [Open]. Its methods may be called
// concurrently.
type Store struct {
	task.Store
	streams *store
}

// RemoveOrphans removes messages that crashes of writers have left: entries of indexes that are
// older than a day and have no task, and parts that no record refers to. It returns the number of
// messages that it has removed. Leftover messages only take space, and those of tasks with a TTL
// expire by themselves.
//
// RemoveOrphans also repairs the index of holders. A task can be missing in it if a member stops
// for longer than its lease just before it writes a claim, continues after the others have
// processed its end, and dies before it notices. No member takes such a task over until
// RemoveOrphans is called.
//
// Call RemoveOrphans from time to time, in one process. It reads all records.
func (s *Store) RemoveOrphans(ctx context.Context) (removed int, err error) {
	return s.streams.removeOrphans(ctx, 24*time.Hour)
}

// store implements [task.Store].
type store struct {
	nc          *nats.Conn
	id          string // random; identifies the Store among those of the same name
	api         string // prefix of the subjects of the JetStream API
	options     Options
	partitions  int
	part        int        // maximum size of a part in bytes
	reservation task.Local // only its Acquire is used
	// sweepPortion is the number of entries of a bucket that are read at once.
	sweepPortion int

	member   atomic.Pointer[membership] // the latest; nil before the first Join
	cache    cache
	clock    clock
	hub      watch.Hub
	watches  watches
	lifetime context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
	once     sync.Once
	fault    atomic.Pointer[error] // error of the last write if Health reports it, or nil
	rooms    []room                // by partition

	probes sync.Mutex // held while probeSoon starts a probe
	probed time.Time  // when the last one began
}

var _ task.Store = (*store)(nil)

// Metadata of the streams.
const (
	metaSchema     = "mcpwire_schema"
	metaPartitions = "mcpwire_partitions"
	metaHolders    = "mcpwire_holders" // set once the index of holders is complete
	schema         = 2
)

// Open opens the store of the given name and creates its streams if they do not exist. It fails
// with [ErrSchema] if a newer version of this package has changed the streams. Several processes
// may open a store. The connection of js must stay open while the store is in use; its Close
// does not close it. It must reconnect after any outage: Open fails unless the connection was made
// with nats.MaxReconnects(-1), because by default a connection is closed for ever after an outage
// of about two minutes.
func Open(ctx context.Context, js jetstream.JetStream, options Options) (*Store, error) {
	s, err := open(ctx, js, options)
	if err != nil {
		return nil, err
	}
	return &Store{Store: s, streams: s}, nil
}

func open(ctx context.Context, js jetstream.JetStream, options Options) (*store, error) {
	if options.Name == "" {
		options.Name = "TASKS"
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
	switch {
	case !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(options.Name):
		return nil, fmt.Errorf("jetstream: open: invalid Name %q", options.Name)
	case options.Replicas < 0 || options.Replicas > 5:
		return nil, fmt.Errorf("jetstream: open: invalid Replicas (%d)", options.Replicas)
	case options.Partitions < 0 || options.Partitions > 1024:
		return nil, fmt.Errorf("jetstream: open: invalid Partitions (%d)", options.Partitions)
	case options.MaxBytes < 0:
		return nil, fmt.Errorf("jetstream: open: negative MaxBytes (%d)", options.MaxBytes)
	case options.Timeout < 0:
		return nil, fmt.Errorf("jetstream: open: negative Timeout (%v)", options.Timeout)
	}
	nc := js.Conn()
	if o := &nc.Opts; !o.AllowReconnect || o.MaxReconnect >= 0 {
		return nil, errors.New("jetstream: open: the connection gives up after some attempts to reconnect: connect with nats.MaxReconnects(-1)")
	}
	s := &store{nc: nc, id: rand.Text(), options: options, part: min(maxPart, int(nc.MaxPayload())-4096), sweepPortion: 1024}
	if s.part < 4096 {
		return nil, fmt.Errorf("jetstream: open: max_payload of the servers is %d (must be at least 8192)", nc.MaxPayload())
	}
	s.api = js.Options().APIPrefix
	if domain := js.Options().Domain; domain != "" {
		s.api = "$JS." + domain + ".API"
	}
	if s.api == "" {
		s.api = "$JS.API"
	}
	if s.api[len(s.api)-1] != '.' {
		s.api += "."
	}
	s.lifetime, s.end = context.WithCancel(context.Background())
	err := s.openStreams(ctx, js)
	if err == nil {
		s.rooms = make([]room, s.partitions)
		err = s.startWatching()
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

func (s *store) prefix(partition int) string { return s.options.Name + "." + strconv.Itoa(partition) }
func (s *store) recordStream(partition int) string {
	return fmt.Sprintf("%s-%d", s.options.Name, partition)
}
func (s *store) indexStream(partition int) string { return s.recordStream(partition) + "-index" }

// streams returns the configurations of the streams of a partition. For options that are unset,
// they have the values of new streams.
func (s *store) streams(partition int) []jetstream.StreamConfig {
	prefix := s.prefix(partition)
	base := jetstream.StreamConfig{
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: s.options.Storage,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: -1, Replicas: max(s.options.Replicas, 1),
		AllowDirect: true, AllowMsgTTL: true,
		Metadata: map[string]string{metaSchema: strconv.Itoa(schema), metaPartitions: strconv.Itoa(s.partitions)},
	}
	if s.options.MaxBytes > 0 {
		base.MaxBytes = s.options.MaxBytes
	}
	records, index := base, base
	records.Name, records.Subjects = s.recordStream(partition), []string{prefix + ".r.*", prefix + ".p.*.*.*", prefix + ".h.*.*"}
	records.Description = "Records of tasks"
	records.MaxMsgsPerSubject, records.AllowAtomicPublish = 1, true
	records.Metadata = maps.Clone(base.Metadata)
	records.Metadata[metaHolders] = "1"
	records.RePublish = &jetstream.RePublish{Source: prefix + ".r.*", Destination: prefix + ".w.{{wildcard(1)}}", HeadersOnly: true}
	index.Name, index.Subjects = s.indexStream(partition), []string{prefix + ".o.*", prefix + ".d.*.*"}
	index.Description = "Owners and expiries of tasks"
	return []jetstream.StreamConfig{records, index}
}

// openStreams creates, checks or updates the streams. It begins with the stream of members, because
// members of older versions cannot join after the upgrade of that stream.
func (s *store) openStreams(ctx context.Context, js jetstream.JetStream) error {
	s.partitions = max(s.options.Partitions, 1)
	if _, err := s.openStream(ctx, js, s.membersConfig()); err != nil {
		return err
	}
	for partition := 0; partition < s.partitions; partition++ {
		for _, config := range s.streams(partition) {
			opened, err := s.openStream(ctx, js, config)
			if err != nil {
				return err
			}
			if config.Metadata[metaHolders] != "" && opened.Metadata[metaHolders] == "" {
				if err := s.indexHolders(ctx, js, partition, opened); err != nil {
					return err
				}
			}
		}
	}
	_, err := s.openStream(ctx, js, s.quotasConfig())
	return err
}

// openStream creates, checks or updates one stream. It takes the number of partitions from the
// stream if the stream exists.
func (s *store) openStream(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) (opened jetstream.StreamConfig, err error) {
	what := "open stream " + config.Name
	var present *jetstream.StreamInfo
	disabled := false
	err = s.retry(ctx, what, func(ctx context.Context) error {
		begun := time.Now()
		stream, err := js.Stream(ctx, config.Name)
		disabled = errors.Is(err, nats.ErrNoResponders)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			stream, err = js.CreateStream(ctx, config)
			if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				return errRepeat{err} // another process has created it
			}
		}
		if err != nil {
			return unavailable(err)
		}
		present = stream.CachedInfo()
		s.clock.sample(begun, present.TimeStamp)
		return nil
	})
	switch {
	case err != nil && disabled:
		return opened, fmt.Errorf("%w (is JetStream enabled on the servers?)", err)
	case err != nil:
		return opened, err
	}
	meta := present.Config.Metadata
	version, err := strconv.Atoi(meta[metaSchema])
	if err != nil {
		return opened, fmt.Errorf("%w: stream %q has none, so another program has created it", ErrSchema, config.Name)
	}
	if version > schema {
		return opened, fmt.Errorf("%w: stream %q has version %d, and this program supports %d", ErrSchema, config.Name, version, schema)
	}
	if s.partitions, err = strconv.Atoi(meta[metaPartitions]); err != nil || s.partitions < 1 {
		return opened, fmt.Errorf("%w: stream %q has %q partitions", ErrSchema, config.Name, meta[metaPartitions])
	}
	if version < schema && config.Name == s.memberStream() {
		if err := s.checkMembers(ctx); err != nil {
			return opened, err
		}
	}
	// An update changes only the fields of Options and those that the schema needs.
	updated := present.Config
	updated.Subjects, updated.RePublish, updated.MaxMsgsPerSubject = config.Subjects, config.RePublish, config.MaxMsgsPerSubject
	updated.AllowDirect, updated.AllowMsgTTL, updated.AllowAtomicPublish = config.AllowDirect, config.AllowMsgTTL, config.AllowAtomicPublish
	updated.Discard = config.Discard
	if s.options.Replicas != 0 {
		updated.Replicas = s.options.Replicas
	}
	if s.options.MaxBytes != 0 {
		updated.MaxBytes = s.options.MaxBytes
	}
	updated.Metadata = maps.Clone(meta)
	updated.Metadata[metaSchema] = strconv.Itoa(schema)
	if version == schema && sameConfig(&updated, &present.Config) {
		return present.Config, nil
	}
	return updated, s.update(ctx, js, updated)
}

// update updates the configuration of a stream.
func (s *store) update(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) error {
	return s.retry(ctx, "update stream "+config.Name, func(ctx context.Context) error {
		_, err := js.UpdateStream(ctx, config)
		return unavailable(err)
	})
}

// sameConfig reports whether two configurations have the same values in the fields that openStream
// may change.
func sameConfig(a, b *jetstream.StreamConfig) bool {
	text := func(c *jetstream.StreamConfig) string {
		var republish jetstream.RePublish
		if c.RePublish != nil {
			republish = *c.RePublish
		}
		return fmt.Sprint(c.Subjects, republish, c.MaxMsgsPerSubject, c.AllowDirect, c.AllowMsgTTL, c.AllowAtomicPublish, c.Discard, c.Replicas, c.MaxBytes)
	}
	return text(a) == text(b)
}

// unavailable converts an API error of package jetstream to an apiError, so that transient works.
func unavailable(err error) error {
	if e, ok := errors.AsType[*jetstream.APIError](err); ok {
		return &apiError{e.Code, int(e.ErrorCode), e.Description}
	}
	return err
}

// report stores the outcome of a write for Health.
func (s *store) report(err error) {
	switch {
	case err == nil:
		if s.fault.Load() != nil {
			s.fault.Store(nil)
		}
	case errors.Is(err, ErrFull) || errors.Is(err, ErrUnavailable):
		s.fault.Store(&err)
	}
}

// Health implements [task.Store]. It returns an error while the connection is lost, and
// after a write failed because a stream is full or the servers did not answer, until a write
// succeeds. While it returns such an error, it tries a write itself, about once in a second.
func (s *store) Health() error {
	if s.lifetime.Err() != nil {
		return task.ErrClosed
	}
	if status := s.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("jetstream: connection is %s", status)
	}
	if fault := s.fault.Load(); fault != nil {
		s.probeSoon()
		return *fault
	}
	return nil
}

// Acquire implements [task.Store]. Announcements name the Store that has published them, so two
// Managers with one Store would miss each other's changes.
func (s *store) Acquire() (release func(), err error) { return s.reservation.Acquire() }

// Close implements [task.Store]. It does not close the connection.
func (s *store) Close() error {
	s.once.Do(func() {
		s.probes.Lock()
		s.end()
		s.probes.Unlock()
		s.hub.Close()
		s.running.Wait()
	})
	return nil
}
