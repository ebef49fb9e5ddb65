package oauth

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

var _ httpclient.Authorizer = (*Authorizer)(nil)

// maxSends limits how often a message is sent. After the last attempt, Challenged returns false.
const maxSends = 4

// Authorize adds the token for the server to req. Without a token, it leaves the request
// unauthorized. It refreshes a token that is about to expire.
func (a *Authorizer) Authorize(req *http.Request, op httpclient.Operation) error {
	s, err := a.server(op.Server)
	if err != nil {
		return err
	}
	req.Header.Del("Authorization")
	req.Header.Del("DPoP")
	if !sameOrigin(req.URL, s.url) {
		return nil
	}
	t, err := s.current(req.Context())
	if err != nil || t == nil {
		return err
	}
	if op.Attempt == 0 && !t.sentFirst.Load() {
		t.sentFirst.Store(true)
	}
	return a.sign(req, t)
}

// sign adds a token to a request.
func (a *Authorizer) sign(req *http.Request, t *grantedToken) error {
	access, err := t.Access.RevealTo(req.URL)
	if err != nil {
		return fmt.Errorf("oauth: access token: %w", err)
	}
	if t.Type != "DPoP" {
		req.Header.Set("Authorization", "Bearer "+access)
		return nil
	}
	if a.config.Prover == nil {
		return errors.New("oauth: stored DPoP token: Options.Prover is needed")
	}
	u := *req.URL
	u.RawQuery, u.Fragment, u.User = "", "", nil
	proof, err := a.config.Prover.Proof(t.Key, req.Method, u.String(), t.Access, a.shared.nonces.get(u.String()))
	if err != nil {
		return fmt.Errorf("oauth: DPoP proof: %w", err)
	}
	req.Header.Set("Authorization", "DPoP "+access)
	req.Header.Set("DPoP", proof)
	return nil
}

// refreshPatience is how long a request waits for a refresh while its token is still valid. It leaves
// slow authorization servers time to respond: a program that ends with its request would lose the
// refresh token in a later response.
const refreshPatience = 5 * time.Second

// current returns the token to use, or nil if there is no token. It refreshes a stale token first,
// but while the token is valid, it waits for that only for refreshPatience, and for half of the time
// until the deadline of ctx.
func (s *server) current(ctx context.Context) (*grantedToken, error) {
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	t := s.token
	s.mu.Unlock()
	if t == nil || !t.stale(time.Now(), s.a.config.Skew) || t.Refresh.Empty() && !s.a.quiet() {
		return t, nil
	}
	at, err := s.start(false, false, func(ctx context.Context) error {
		f := &flow{s: s, rejected: t}
		return f.renew(ctx)
	})
	if err == nil && at.user { // Authorize must not wait for the user
		s.leave(at)
		return t, nil
	}
	if err == nil {
		waiting, patience := ctx, refreshPatience
		if deadline, ok := ctx.Deadline(); ok {
			patience = min(patience, time.Until(deadline)/2)
		}
		if !t.expired(time.Now().Add(patience)) {
			var cancel context.CancelFunc
			waiting, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		err = s.wait(waiting, at)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, ErrLoginNeeded):
		return s.token, nil
	case !t.expired(time.Now()) && ctx.Err() == nil:
		return t, nil
	}
	return nil, err
}

// quiet reports whether the grant obtains tokens without the user.
func (a *Authorizer) quiet() bool { return a.config.Grant != nil && !a.config.Grant.NeedsUser() }

// challenge holds the demands of a server.
type challenge struct {
	metadata string   // URL of the resource metadata; "" if unknown
	scopes   []string // nil if the challenge names no scopes
	dpop     bool     // whether the scheme is DPoP
	code     string   // the parameter error
}

// readChallenge reads the challenges of a response. With a Prover, it prefers the DPoP challenge.
// Without one, it prefers the bearer challenge.
func (a *Authorizer) readChallenge(header http.Header) challenge {
	schemes := []string{"Bearer", "DPoP"}
	if a.config.Prover != nil {
		schemes = []string{"DPoP", "Bearer"}
	}
	var c challenge
	all := authtext.ParseChallenges(header.Values("WWW-Authenticate"))
	found := false
	for _, scheme := range schemes {
		for _, next := range all {
			if !strings.EqualFold(next.Scheme, scheme) {
				continue
			}
			if !found {
				found = true
				c.dpop, c.code, c.scopes = scheme == "DPoP", next.Param("error"), next.Scopes()
			}
			if c.metadata == "" {
				c.metadata = next.Param("resource_metadata")
			}
		}
	}
	return c
}

// Challenged obtains a token that meets the challenge of resp. Concurrent calls for a server share
// one attempt. If op has no Method, Challenged does not ask the user.
func (a *Authorizer) Challenged(ctx context.Context, resp *http.Response, op httpclient.Operation) (bool, error) {
	if resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
		return false, nil
	}
	s, err := a.server(op.Server)
	if err != nil {
		return false, err
	}
	if resp.Request == nil || !sameOrigin(resp.Request.URL, s.url) || op.Attempt >= maxSends-1 {
		return false, nil
	}
	c := a.readChallenge(resp.Header)
	a.shared.nonces.set(resp.Request.URL.String(), resp.Header)
	_, sent, _ := strings.Cut(resp.Request.Header.Get("Authorization"), " ")
	if c.code == "use_dpop_nonce" && sent != "" {
		nonce := a.shared.nonces.get(resp.Request.URL.String())
		if nonce != "" && nonce != proofNonce(resp.Request.Header.Get("DPoP")) {
			return true, nil
		}
	}
	s.mu.Lock()
	t := s.token
	s.mu.Unlock()
	if t != nil && t.Access.Reveal() != sent {
		return true, nil // there is a newer token
	}
	if resp.StatusCode == http.StatusForbidden {
		if c.code != "insufficient_scope" || t == nil {
			return false, nil
		}
		return s.stepUp(ctx, c, t, op)
	}
	return s.unauthorized(ctx, c, t, op)
}

// proofNonce returns the nonce of a DPoP proof.
func proofNonce(proof string) string {
	parts := strings.Split(proof, ".")
	if len(parts) != 3 {
		return ""
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct{ Nonce string }
	if err != nil || json.Unmarshal(text, &claims) != nil {
		return ""
	}
	return claims.Nonce
}

// unauthorized obtains a token after a 401. t is the rejected token; nil if the request had none.
func (s *server) unauthorized(ctx context.Context, c challenge, t *grantedToken, op httpclient.Operation) (bool, error) {
	justIssued := t != nil && t.fresh && !t.sentFirst.Load() // it was obtained for this message
	if justIssued && !t.refreshed && op.Attempt > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return false, s.fail(&Error{Op: "authorize", Issuer: s.binding.Issuer, Err: errors.New("the server rejects the token just issued for it")})
	}
	f := &flow{s: s, rejected: t, challenge: c, user: op.Method != ""}
	f.skipRefresh = justIssued && t.refreshed && op.Attempt > 0
	if t == nil && !s.a.quiet() && !f.mayAsk() {
		s.mu.Lock()
		waiting := s.running != nil
		s.mu.Unlock()
		if found, err := s.reload(ctx, ""); found || err != nil {
			return found, err
		}
		if !waiting {
			return false, &Error{Op: "authorize", Server: s.canonical, Err: ErrLoginNeeded}
		}
	}
	return s.attempt(ctx, f, false)
}

// stepUp obtains a token with more scopes after a 403.
func (s *server) stepUp(ctx context.Context, c challenge, t *grantedToken, op httpclient.Operation) (bool, error) {
	f := &flow{s: s, challenge: c, user: op.Method != "", keep: true, rejected: t, skipRefresh: true}
	s.mu.Lock()
	if s.running == nil {
		if s.stepUps == nil || len(s.stepUps) >= maxOps {
			s.stepUps = map[operation][]time.Time{}
		}
		k := operation{op.Method, op.Name}
		limit := s.a.config.MaxStepUps
		if containsAll(s.binding.Scopes, c.scopes) {
			limit = min(limit, 1)
		}
		times := s.stepUps[k]
		allowed := count(&times, limit, window)
		s.stepUps[k] = times
		if !allowed {
			issuer := s.binding.Issuer
			s.mu.Unlock()
			return false, &Error{Op: "authorize", Server: s.canonical, Issuer: issuer,
				Err: fmt.Errorf("%w: the server demands %q again", ErrScope, strings.Join(c.scopes, " "))}
		}
	}
	// If an attempt is running, or another request starts one before f, the next step-up asks for them.
	if demanded := slices.Concat(s.demanded, c.scopes); len(demanded) <= maxDemanded {
		s.demanded = demanded
	}
	s.mu.Unlock()
	return s.attempt(ctx, f, false)
}

const maxDemanded = 100

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !slices.Contains(list, w) })
}

// attempt runs f, or joins the running attempt. If the joined attempt could not ask the user and f
// can, attempt runs f afterwards.
func (s *server) attempt(ctx context.Context, f *flow, force bool) (bool, error) {
	for range 2 {
		at, err := s.start(f.mayAsk(), force, f.run)
		if err != nil {
			return false, err
		}
		err = s.wait(ctx, at)
		if errors.Is(err, ErrLoginNeeded) && !at.user && f.mayAsk() {
			continue
		}
		return err == nil, err
	}
	return false, &Error{Op: "authorize", Server: s.canonical, Err: ErrLoginNeeded}
}

// at parses the URL of a server and returns its state, loaded from the store.
func (a *Authorizer) at(ctx context.Context, serverURL string) (*server, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, errors.New("oauth: malformed server URL")
	}
	u.RawQuery, u.ForceQuery = "", false
	s, err := a.server(u)
	if err != nil {
		return nil, err
	}
	return s, s.load(ctx)
}

// Login starts a new authorization, even if the server has not demanded one, and without the delay
// after earlier failures. If a flow is already running and has waiters, Login joins it. It cancels
// and replaces a running login without waiters. If ctx ends, the flow ends unless it has other
// waiters.
func (a *Authorizer) Login(ctx context.Context, serverURL string) error {
	s, err := a.at(ctx, serverURL)
	if err != nil {
		return err
	}
	s.cancelAbandoned(ctx)
	_, err = s.attempt(ctx, &flow{s: s, user: true, login: true, skipRefresh: true}, true)
	if ctx.Err() != nil {
		s.cancelAbandoned(context.WithoutCancel(ctx))
	}
	return err
}

// Logout deletes the token for a server. If the authorization server supports revocation, Logout
// also revokes the token. The token is deleted even if the revocation fails. Another process that
// shares the Store does not refresh its copy of a deleted token. It uses that copy until it needs a
// refresh or the server rejects it.
func (a *Authorizer) Logout(ctx context.Context, serverURL string) error {
	s, err := a.at(ctx, serverURL)
	if err != nil {
		return err
	}
	b, t, err := s.remove(ctx)
	if err != nil || t == nil {
		return err
	}
	f := &flow{s: s}
	e, err := f.tokenEndpoint(ctx, b, t)
	if err != nil {
		return err
	}
	if e.metadata.RevocationEndpoint == "" {
		return nil
	}
	if err := checkEndpoints(e.fetch, e.metadata.RevocationEndpoint); err != nil {
		return &Error{Op: "revoke", Server: s.canonical, Issuer: b.Issuer, Err: err}
	}
	return errors.Join(e.revoke(ctx, t.Refresh, "refresh_token"), e.revoke(ctx, t.Access, "access_token"))
}

// remove removes the token from memory and from the store, and returns the stored values. It first
// waits for running refreshes in this and other processes, because they would store a new token.
func (s *server) remove(ctx context.Context) (b binding, t *grantedToken, err error) {
	release, err := s.exclude(ctx)
	if err != nil {
		return b, nil, err
	}
	defer release()
	unlock, err := s.store().Lock(ctx, s.serverKey())
	if err == nil {
		defer unlock()
		b, t, err = s.read(ctx)
	}
	if err != nil {
		return b, nil, fmt.Errorf("oauth: store: %w", err)
	}
	s.mu.Lock()
	s.token, s.binding = nil, binding{}
	s.mu.Unlock()
	if b.Issuer != "" {
		err = s.store().Delete(ctx, s.tokenKey(b.Issuer))
	}
	if err = errors.Join(err, s.store().Delete(ctx, s.serverKey())); err != nil {
		return b, nil, fmt.Errorf("oauth: store: %w", err)
	}
	return b, t, nil
}

// Token returns the token for a server. It refreshes a token that is about to expire. If there is
// no token, it obtains one if the grant needs no user, and fails with ErrLoginNeeded otherwise.
func (a *Authorizer) Token(ctx context.Context, serverURL string) (*Token, error) {
	s, err := a.at(ctx, serverURL)
	if err != nil {
		return nil, err
	}
	t, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	if (t == nil || t.expired(time.Now())) && a.quiet() {
		if _, err := s.attempt(ctx, &flow{s: s, rejected: t}, false); err != nil {
			return nil, err
		}
		if t, err = s.current(ctx); err != nil {
			return nil, err
		}
	}
	if t == nil || t.expired(time.Now()) {
		return nil, &Error{Op: "authorize", Server: s.canonical, Err: ErrLoginNeeded}
	}
	token := t.Token
	token.Scopes = slices.Clone(t.Scopes)
	return &token, nil
}
