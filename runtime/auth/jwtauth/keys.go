package jwtauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

const (
	fetchTimeout = 10 * time.Second
	maxKeys      = 100

	defaultFresh = time.Hour // without Cache-Control
	minFresh     = 5 * time.Minute
	maxFresh     = 24 * time.Hour
	maxStale     = 24 * time.Hour // after the last fetch that succeeded

	refetch = 30 * time.Second // minimum time to the next fetch after a success
	retry   = 5 * time.Second  // minimum time to the next fetch after a failure

	staleWait = 500 * time.Millisecond // how long a request with a known key waits for fresh keys
)

// keySet fetches and caches the keys of an issuer.
type keySet struct {
	issuer string
	url    string // of the keys; "": the metadata has it
	http   *fetch.Client
	log    *slog.Logger

	mu        sync.Mutex
	keys      []jose.JSONWebKey // replaced as a whole, never changed
	fetched   time.Time         // the last successful fetch
	fresh     time.Time         // when the keys must be fetched again
	attempted time.Time         // when the last fetch ended
	err       error             // of the last fetch
	flight    chan struct{}     // closed when the running fetch ends; nil if none runs
}

// find returns the keys with an id. Without an id, it returns all keys. It fails with
// auth.ErrUnavailable if the keys cannot be fetched, and with auth.ErrInvalidToken if the issuer
// has no such key.
func (s *keySet) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	found := s.withID(id, now)
	if len(found) > 0 && now.Before(s.fresh) {
		return found, nil
	}
	wait := refetch
	if s.err != nil {
		wait = retry
	}
	if s.flight == nil && !now.Before(s.attempted.Add(wait)) {
		s.flight = make(chan struct{})
		go s.refresh() // ends after fetchTimeout
	}
	if len(found) > 0 && s.err != nil {
		return found, nil // the last fetch failed: use the stale keys, and do not wait for the next one
	}
	if flight := s.flight; flight != nil {
		var enough <-chan time.Time
		if len(found) > 0 {
			t := time.NewTimer(staleWait)
			defer t.Stop()
			enough = t.C
		}
		s.mu.Unlock()
		var err error
		select {
		case <-flight:
		case <-enough:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		s.mu.Lock()
		if err != nil {
			return nil, fmt.Errorf("jwtauth: %w: keys: %w", auth.ErrUnavailable, err)
		}
		found = s.withID(id, time.Now())
	}
	switch {
	case len(found) > 0:
		return found, nil
	case s.err != nil:
		return nil, fmt.Errorf("jwtauth: %w: keys: %w", auth.ErrUnavailable, s.err)
	}
	return nil, invalid("the issuer has no key with the id %.100q", id)
}

func (s *keySet) withID(id string, now time.Time) (found []jose.JSONWebKey) {
	if now.Sub(s.fetched) >= maxStale {
		return nil
	}
	if id == "" {
		return s.keys
	}
	for _, key := range s.keys {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// refresh fetches the keys. It runs in its own goroutine, so that a request that is canceled does
// not cancel the fetch for other requests.
func (s *keySet) refresh() {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	var keys []jose.JSONWebKey
	var fresh time.Duration
	err := boundary.ErrGoexit
	defer func() { // deferred, because a transport set by the user may call runtime.Goexit
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		if err == nil {
			s.keys, s.fetched, s.fresh = keys, now, now.Add(fresh)
		} else if !boundary.Report(s.log, "HTTP client panicked", err) {
			s.log.Warn("issuer keys not fetched", "issuer", s.issuer, "error", err)
		}
		s.attempted, s.err = now, err
		close(s.flight)
		s.flight = nil
	}()
	err = boundary.Run(func() (err error) {
		keys, fresh, err = s.fetch(ctx)
		return err
	})
}

// fetch returns the keys, and for how long they are fresh.
func (s *keySet) fetch(ctx context.Context) ([]jose.JSONWebKey, time.Duration, error) {
	at := s.url
	if at == "" {
		var err error
		if at, err = s.discover(ctx); err != nil {
			return nil, 0, err
		}
	}
	r, err := s.http.Get(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	if r.Status != http.StatusOK {
		return nil, 0, &fetch.Error{URL: fetch.Show(at), Status: r.Status}
	}
	var set struct{ Keys []json.RawMessage }
	if json.Unmarshal(r.Body, &set) != nil { // the content type is ignored: static files often have a wrong one
		return nil, 0, fmt.Errorf("%s is not a key set", fetch.Show(at))
	}
	if len(set.Keys) > maxKeys {
		return nil, 0, fmt.Errorf("%s has %d keys, more than %d", fetch.Show(at), len(set.Keys), maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		// Keys of unknown types and keys for encryption are ignored (RFC 7517, section 5). So are secret
		// keys, which an issuer must not publish.
		if key.UnmarshalJSON(text) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, 0, fmt.Errorf("%s has no usable key", fetch.Show(at))
	}
	return keys, freshness(r.Header), nil
}

// discover returns the URL of the keys in the metadata. It tries up to three URLs of the metadata
// (MCP basic/authorization, Authorization Server Metadata Discovery).
func (s *keySet) discover(ctx context.Context) (string, error) {
	u, err := url.Parse(s.issuer)
	if err != nil {
		return "", err
	}
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	var failed []error
	for _, place := range places {
		var metadata auth.ServerMetadata
		err := s.http.GetJSON(ctx, place, &metadata)
		unanswered, ok := errors.AsType[*fetch.Error](err)
		switch {
		case ok && unanswered.Status == 0:
			return "", err
		case err != nil:
			failed = append(failed, err)
		case metadata.Issuer != s.issuer:
			return "", fmt.Errorf("%s is of issuer %.200q, want %q", place, metadata.Issuer, s.issuer)
		case metadata.JWKSURI == "":
			failed = append(failed, fmt.Errorf("%s has no jwks_uri", place))
		default:
			return metadata.JWKSURI, nil
		}
	}
	return "", errors.Join(failed...)
}

// freshness returns for how long a response may be used, between minFresh and maxFresh.
func freshness(header http.Header) time.Duration {
	for _, value := range header.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			name, seconds, _ := strings.Cut(strings.TrimSpace(directive), "=")
			switch {
			case strings.EqualFold(name, "no-store"), strings.EqualFold(name, "no-cache"):
				return minFresh
			case strings.EqualFold(name, "max-age"):
				if n, err := strconv.ParseUint(strings.Trim(seconds, `"`), 10, 31); err == nil {
					return min(max(time.Duration(n)*time.Second, minFresh), maxFresh)
				}
			}
		}
	}
	return defaultFresh
}
