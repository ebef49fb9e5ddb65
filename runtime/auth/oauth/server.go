package oauth

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

// Limits.
const (
	window       = 10 * time.Minute // for counting flows and step-ups, and for caching metadata
	maxFlows     = 10               // flows for a server per window
	maxLookups   = 3                // requests for resource metadata after rejected tokens, per minute
	minBackoff   = time.Second
	maxBackoff   = 5 * time.Minute
	deniedPause  = 30 * time.Second // after the user has denied the authorization or has not responded
	quietTimeout = time.Minute      // of an attempt without the user
	maxOps       = 1000             // operations whose step-ups are counted
)

// server is the state of an Authorizer for one server and one principal.
type server struct {
	a         *Authorizer
	url       *url.URL // canonical
	canonical string
	fetch     *fetch.Client
	used      time.Time // guarded by shared.mu

	mu       sync.Mutex
	loaded   bool
	binding  binding
	token    *grantedToken // nil without a token
	running  *attempt      // nil if no attempt is running
	resource *auth.ResourceMetadata
	found    string    // the URL that advertised resource
	foundAt  time.Time // when resource was found

	failures int
	cause    error     // of the last failure
	until    time.Time // when the next attempt may begin
	flows    []time.Time
	lookups  []time.Time
	stepUps  map[operation][]time.Time
	demanded []string // scopes demanded since the last step-up began, for the next one; at most maxDemanded
}

// operation identifies the requests whose step-ups are counted together.
type operation struct{ method, name string }

// attempt is a running attempt to obtain a token. Requests wait for its result.
type attempt struct {
	user    bool // whether it may ask the user
	cancel  context.CancelFunc
	waiters int // guarded by server.mu
	done    chan struct{}
	err     error // set before done is closed
}

func (s *server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running == nil
}

func (s *server) store() Store { return s.a.config.Store }

func (s *server) serverKey() Key {
	return Key{Kind: kindServer, Resource: s.canonical, Principal: s.a.principal}
}

func (s *server) tokenKey(issuer string) Key {
	return Key{Kind: kindToken, Issuer: issuer, Resource: s.canonical, Principal: s.a.principal}
}

func clientKey(issuer string) Key { return Key{Kind: kindClient, Issuer: issuer} }

// read reads the binding and the token from the store.
func (s *server) read(ctx context.Context) (b binding, t *grantedToken, err error) {
	found, err := get(ctx, s.store(), s.serverKey(), &b)
	if errors.Is(err, errMalformed) {
		return binding{}, nil, nil // the next flow replaces the value
	}
	if err != nil || !found {
		return binding{}, nil, err
	}
	text, err := s.store().Get(ctx, s.tokenKey(b.Issuer))
	switch {
	case errors.Is(err, ErrNotFound):
		return b, nil, nil
	case err != nil:
		return binding{}, nil, err
	}
	t, err = decodeToken(b.Issuer, s.canonical, text)
	if err != nil {
		s.a.config.Logger.Warn("stored token ignored", "server", s.canonical, "error", err)
		return b, nil, nil
	}
	return b, t, nil
}

// load reads the store unless it has already been read.
func (s *server) load(ctx context.Context) error {
	s.mu.Lock()
	loaded := s.loaded
	s.mu.Unlock()
	if loaded {
		return nil
	}
	b, t, err := s.read(ctx)
	if err != nil {
		return fmt.Errorf("oauth: store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.loaded, s.binding, s.token = true, b, t
	}
	return nil
}

// reload adopts a token that another process has stored. It returns true if the stored token is not
// the rejected one and has not expired: that process, or an attempt of this one that has just ended,
// has obtained it. If another process has deleted the token, reload drops it: the
// user has logged out, and a refresh would undo that.
func (s *server) reload(ctx context.Context, rejected string) (bool, error) {
	b, t, err := s.read(ctx)
	if err != nil {
		return false, fmt.Errorf("oauth: store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
	switch {
	case t == nil && s.token != nil && s.token.stored:
		s.binding, s.token = b, nil
		return false, nil
	case t == nil:
		return false, nil
	case s.token == nil || !t.Access.Equal(s.token.Access):
		s.binding, s.token = b, t
	}
	return t.Access.Reveal() != rejected && !t.expired(time.Now()), nil
}

// save stores the token and the binding of the server. The caller holds the lock of serverKey,
// under which all processes change both, so that they belong together.
func (s *server) save(ctx context.Context, b binding, t *grantedToken) error {
	text, err := t.encode()
	if err != nil {
		return err
	}
	t.bind(s.canonical)
	s.mu.Lock()
	s.binding, s.token, s.loaded = b, t, true
	s.mu.Unlock()
	var old binding // another process may have logged in at another issuer
	if _, err = get(ctx, s.store(), s.serverKey(), &old); errors.Is(err, errMalformed) {
		old, err = binding{}, nil
	}
	if err == nil {
		err = s.store().Put(ctx, s.tokenKey(b.Issuer), text)
	}
	if err == nil {
		err = put(ctx, s.store(), s.serverKey(), b)
	}
	if err == nil && old.Issuer != "" && old.Issuer != b.Issuer { // last: without a token, other processes would assume a logout
		err = s.store().Delete(ctx, s.tokenKey(old.Issuer))
	}
	if err != nil {
		return fmt.Errorf("oauth: store: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.stored = true
	return nil
}

// forget removes the token if it is still t.
func (s *server) forget(ctx context.Context, t *grantedToken) error {
	s.mu.Lock()
	if s.token != t {
		s.mu.Unlock()
		return nil
	}
	s.token = nil
	s.mu.Unlock()
	return s.store().Delete(ctx, s.tokenKey(t.issuer))
}

// start returns the running attempt, and starts one if necessary. The caller must call wait or
// leave for it. user says whether a new attempt may ask the user. If force is true, an earlier
// failure does not delay it.
func (s *server) start(user, force bool, run func(ctx context.Context) error) (*attempt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		s.running.waiters++
		return s.running, nil
	}
	if now := time.Now(); now.Before(s.until) && !force {
		return nil, &Error{Op: "authorize", Server: s.canonical, Retry: s.until, Err: fmt.Errorf("%w: %w", ErrBackoff, s.cause)}
	}
	timeout := quietTimeout
	if user {
		timeout += s.a.config.LoginTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	at := &attempt{user: user, cancel: cancel, waiters: 1, done: make(chan struct{})}
	s.running = at
	go func() { // ends with its timeout at the latest
		defer cancel()
		err := run(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		at.err = s.fail(err)
		s.running = nil
		close(at.done)
	}()
	return at, nil
}

// wait waits for the end of an attempt.
func (s *server) wait(ctx context.Context, at *attempt) error {
	defer s.leave(at)
	select {
	case <-at.done:
		return at.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave removes the waiter that start added.
func (s *server) leave(at *attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at.waiters--
}

// exclude waits until no attempt is running, and prevents new attempts until release is called. It
// cancels a running attempt that may ask the user. Waiters that join in the meantime get
// ErrLoginNeeded.
func (s *server) exclude(ctx context.Context) (release func(), err error) {
	for {
		s.mu.Lock()
		at := s.running
		if at == nil {
			at = &attempt{cancel: func() {}, done: make(chan struct{}), err: ErrLoginNeeded}
			s.running = at
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.running = nil
				close(at.done)
			}, nil
		}
		s.mu.Unlock()
		if at.user {
			at.cancel()
		}
		select {
		case <-at.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// cancelAbandoned cancels the running attempt if it may ask the user and has no waiters, and waits
// for its end.
func (s *server) cancelAbandoned(ctx context.Context) {
	s.mu.Lock()
	at := s.running
	abandoned := at != nil && at.user && at.waiters == 0
	s.mu.Unlock()
	if !abandoned {
		return
	}
	at.cancel()
	select {
	case <-at.done:
	case <-ctx.Done():
	}
}

// fail delays the next attempt if err is not nil, and returns err with the time of that attempt.
// The caller holds mu.
func (s *server) fail(err error) error {
	now := time.Now()
	if err == nil || errors.Is(err, ErrLoginNeeded) {
		if err == nil {
			s.failures, s.until, s.cause = 0, time.Time{}, nil
		}
		return err
	}
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Op: "authorize", Err: err}
	}
	failed := *e
	failed.Server = s.canonical
	delay := minBackoff << min(s.failures, 9)
	delay = rand.N(min(delay, maxBackoff)) + 1
	if asked := (*userError)(nil); errors.Is(err, ErrDenied) || errors.As(err, &asked) {
		delay = deniedPause
	}
	s.failures++
	s.until = now.Add(delay)
	if failed.Retry.After(s.until) && failed.Retry.Before(now.Add(maxBackoff)) {
		s.until = failed.Retry
	}
	failed.Retry = s.until
	s.cause = err
	s.a.config.Logger.Warn("authorization failed", "server", s.canonical, "error", err)
	return &failed
}

// recent removes the times that are older than age. It changes times in place.
func recent(times []time.Time, age time.Duration) []time.Time {
	since := time.Now().Add(-age)
	return slices.DeleteFunc(times, func(t time.Time) bool { return t.Before(since) })
}

// count counts an event. It returns false without counting if limit events have been counted within
// age.
func count(times *[]time.Time, limit int, age time.Duration) bool {
	*times = recent(*times, age)
	if len(*times) >= limit {
		return false
	}
	*times = append(*times, time.Now())
	return true
}
