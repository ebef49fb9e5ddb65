package oauth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

var (
	hostileWorlds = flag.Int("worlds", 1000, "number of worlds of TestSecretsReachOnlyTheirRecipients")
	hostileSeed   = flag.Uint64("worldseed", 0, "seed of the first world of that test; the next worlds have the next seeds; 0 for a random seed")
)

// TestSecretsReachOnlyTheirRecipients lets Authorizers that share a store act in random worlds of
// honest and hostile servers and authorization servers. The hostile ones name endpoints of the
// honest ones, relay to them, redirect, and change their metadata at any time. In the end, all that
// each party has received is searched for all secrets that are not meant for it.
//
// A hostile authorization server does not relay the authorization to an honest one that sends no
// iss: nothing prevents that attack. A seed repeats a world, but not always the order of two
// Authorizers that act at once.
func TestSecretsReachOnlyTheirRecipients(t *testing.T) {
	n, seed := *hostileWorlds, *hostileSeed
	if testing.Short() {
		n = min(n, 100)
	}
	if seed == 0 {
		seed = rand.Uint64N(1e9) + 1
	}
	t.Logf("seed %d", seed)
	total := map[string]int{}
	for i := range n {
		synctest.Test(t, func(t *testing.T) {
			w := newHostileWorld(t, seed+uint64(i))
			w.run()
			for event, n := range w.events {
				total[event] += n
			}
		})
		if t.Failed() {
			t.Fatalf("to repeat: -worldseed %d -worlds 1", seed+uint64(i))
		}
	}
	t.Logf("%d worlds: %v", n, total)
	for _, event := range []string{"code redeemed", "token refreshed", "assertion redeemed", "logout", "refused", "hostile token request", "call"} {
		if total[event] == 0 && n >= 50 {
			t.Errorf("no world has the event %q", event)
		}
	}
}

// hostileWorld is a network with parties. All handlers run with mu held.
type hostileWorld struct {
	t    *testing.T
	seed uint64

	mu        sync.Mutex
	r         *rand.Rand
	parties   map[string]func(http.ResponseWriter, *http.Request)
	received  map[string]*strings.Builder // by host
	planted   []planted
	issued    int
	events    map[string]int
	loggedOut map[string]bool // by resource

	honest, hostile []*party
	servers         []*protected
	store           *listedStore
	star            auth.Secret // of a client that is bound to its first issuer; empty if there is none
	quiet           bool        // the Authorizers use a grant without a user
}

// planted is a secret and the hosts for which it is meant.
type planted struct {
	text, kind string
	hosts      []string
}

// party is an authorization server.
type party struct {
	w            *hostileWorld
	host, pages  string // the hosts of its endpoints and of its pages
	named        bool   // the configuration of the Authorizers names it
	iss          bool   // it sends iss
	registration bool   // hostile metadata has named its registration endpoint, or relays to it
	lifetime     int    // of tokens, in seconds
	clients      map[string]string
	codes        map[string]url.Values
	access       map[string]bool
	refresh      map[string]url.Values // the forms of the token requests
}

// protected is an MCP server.
type protected struct {
	host    string
	hostile bool
	issuers []*party
}

func (s *protected) url() string { return "https://" + s.host + "/mcp" }

func newHostileWorld(t *testing.T, seed uint64) *hostileWorld {
	w := &hostileWorld{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 0)), parties: map[string]func(http.ResponseWriter, *http.Request){},
		received: map[string]*strings.Builder{}, events: map[string]int{}, loggedOut: map[string]bool{}, store: &listedStore{Store: oauth.NewMemory()}}
	w.quiet = w.r.IntN(3) == 0
	for i := range 2 + w.r.IntN(2) {
		p := w.newParty(fmt.Sprintf("as%d.example", i))
		p.iss, p.named = w.chance(2), i == 0 && w.chance(2) || w.quiet && w.chance(2)
		if p.named && w.chance(2) || p.iss && w.chance(3) {
			p.pages = fmt.Sprintf("pages%d.example", i)
		}
		w.parties[p.host], w.parties[p.pages] = p.serve, p.serve
		w.honest = append(w.honest, p)
	}
	for i := range 1 + w.r.IntN(2) {
		p := w.newParty(fmt.Sprintf("evil%d.example", i))
		w.parties[p.host] = p.attack
		w.hostile = append(w.hostile, p)
	}
	for i := range 2 + w.r.IntN(3) {
		s := &protected{host: fmt.Sprintf("mcp%d.example", i), hostile: i == 0 || w.chance(2)}
		w.move(s)
		w.parties[s.host] = func(rw http.ResponseWriter, r *http.Request) { w.serve(s, rw, r) }
		w.servers = append(w.servers, s)
	}
	return w
}

func (w *hostileWorld) newParty(host string) *party {
	return &party{w: w, host: host, pages: host, lifetime: 60 + w.r.IntN(3600), clients: map[string]string{}, codes: map[string]url.Values{},
		access: map[string]bool{}, refresh: map[string]url.Values{}}
}

// chance is true once in n times.
func (w *hostileWorld) chance(n int) bool { return w.r.IntN(n) == 0 }

func pick[T any](w *hostileWorld, list []T) T { return list[w.r.IntN(len(list))] }

// plant returns a new secret for hosts.
func (w *hostileWorld) plant(kind string, hosts ...string) string {
	w.issued++
	text := fmt.Sprintf("PLANTED%dx%016x", w.issued, w.r.Uint64())
	w.planted = append(w.planted, planted{text, kind, hosts})
	return text
}

// move makes a server name other issuers. Honest servers name honest ones.
func (w *hostileWorld) move(s *protected) {
	choice := w.honest
	if s.hostile {
		choice = slices.Concat(w.honest, w.hostile, w.hostile)
	}
	s.issuers = []*party{pick(w, choice)}
	if w.chance(3) {
		s.issuers = append(s.issuers, pick(w, choice))
	}
}

// RoundTrip implements [http.RoundTripper].
func (w *hostileWorld) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	time.Sleep(time.Duration(w.random(1000)) * time.Millisecond) // lets processes that act at once overtake each other
	w.mu.Lock()
	defer w.mu.Unlock()
	handler := w.parties[req.URL.Host]
	if handler == nil {
		return nil, errors.New("connection refused: " + req.URL.Host)
	}
	log := w.received[req.URL.Host]
	if log == nil {
		log = &strings.Builder{}
		w.received[req.URL.Host] = log
	}
	fmt.Fprintf(log, "%s %s\n%v\n%s\n", req.Method, req.URL, req.Header, body)
	if user, password, ok := req.BasicAuth(); ok {
		fmt.Fprintln(log, user, password)
	}
	in := req.Clone(req.Context())
	in.Body, in.Host = io.NopCloser(bytes.NewReader(body)), req.URL.Host
	if req.Method == http.MethodPost && req.Header.Get("Content-Type") != "application/json" {
		in.ParseForm()
	}
	rec := httptest.NewRecorder()
	handler(rec, in)
	resp := rec.Result()
	resp.Request = req
	return resp, nil
}

func (w *hostileWorld) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

const (
	serverDocument = "/.well-known/oauth-protected-resource/mcp"
	issuerDocument = "/.well-known/oauth-authorization-server"
)

// serve is an MCP server.
func (w *hostileWorld) serve(s *protected, rw http.ResponseWriter, r *http.Request) {
	resource, document := s.url(), "https://"+s.host+serverDocument
	if s.hostile {
		if w.chance(8) {
			resource = pick(w, w.servers).url()
		}
		if w.chance(8) {
			document = "https://" + pick(w, w.servers).host + serverDocument
		}
		if w.chance(20) {
			http.Redirect(rw, r, pick(w, w.servers).url(), http.StatusTemporaryRedirect)
			return
		}
	}
	if r.URL.Path == serverDocument {
		var issuers []string
		for _, p := range s.issuers {
			issuers = append(issuers, p.issuer())
		}
		mockas.JSON(rw, http.StatusOK, map[string]any{"resource": resource, "authorization_servers": issuers, "scopes_supported": []string{"read"}})
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	accepted := slices.ContainsFunc(w.honest, func(p *party) bool { return p.access[token] })
	if s.hostile {
		accepted = !w.chance(3)
	}
	switch {
	case accepted:
		rw.WriteHeader(http.StatusOK)
	case s.hostile && token != "" && w.chance(2):
		rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope="more", resource_metadata=%q`, document))
		rw.WriteHeader(http.StatusForbidden)
	default:
		rw.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", document))
		rw.WriteHeader(http.StatusUnauthorized)
	}
}

func (p *party) issuer() string { return "https://" + p.host }

func (p *party) document() map[string]any {
	m := map[string]any{
		"issuer": p.issuer(), "authorization_endpoint": "https://" + p.pages + "/authorize", "token_endpoint": p.issuer() + "/token",
		"registration_endpoint": p.issuer() + "/register", "revocation_endpoint": p.issuer() + "/revoke", "code_challenge_methods_supported": []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{[]string{"client_secret_post", "client_secret_basic"}[p.lifetime%2]},
	}
	if p.iss {
		m["authorization_response_iss_parameter_supported"] = true
	}
	return m
}

// serve is an honest authorization server.
func (p *party) serve(rw http.ResponseWriter, r *http.Request) {
	w := p.w
	switch r.URL.Path {
	case issuerDocument:
		mockas.JSON(rw, http.StatusOK, p.document())
	case "/register":
		p.register(rw)
	case "/authorize":
		q := r.URL.Query()
		code := w.plant("code", p.host, p.pages)
		p.codes[code] = q
		answer := url.Values{"code": {code}, "state": {q.Get("state")}}
		if p.iss {
			answer.Set("iss", p.issuer())
		}
		http.Redirect(rw, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
	case "/token":
		p.token(rw, r)
	case "/revoke":
		delete(p.access, r.Form.Get("token"))
		delete(p.refresh, r.Form.Get("token"))
		rw.WriteHeader(http.StatusOK)
	default:
		http.NotFound(rw, r)
	}
}

func (p *party) register(rw http.ResponseWriter) {
	secret := p.w.plant("secret of a registered client", p.host)
	if p.registration { // a hostile server can register a client itself
		p.w.planted[len(p.w.planted)-1].hosts = slices.Collect(maps.Keys(p.w.parties))
	}
	id := fmt.Sprintf("client%d", p.w.issued)
	p.clients[id] = secret
	mockas.JSON(rw, http.StatusCreated, map[string]any{"client_id": id, "client_secret": secret})
}

func (p *party) token(rw http.ResponseWriter, r *http.Request) {
	w, form := p.w, r.Form
	w.checkLoggedOut(form)
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = form.Get("client_id"), form.Get("client_secret")
	}
	if want, ok := p.clients[id]; !ok && !strings.HasPrefix(id, "https://") || want != secret {
		mockas.Fail(rw, http.StatusUnauthorized, "invalid_client", "")
		return
	}
	event := ""
	switch form.Get("grant_type") {
	case "authorization_code":
		q, sum := p.codes[form.Get("code")], sha256.Sum256([]byte(form.Get("code_verifier")))
		if q != nil && q.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) {
			event = "code redeemed"
			w.planted = append(w.planted, planted{form.Get("code_verifier"), "verifier", []string{p.host}})
			w.loggedOut[form.Get("resource")] = false
		}
	case "refresh_token":
		if old := p.refresh[form.Get("refresh_token")]; old != nil && old.Get("resource") == form.Get("resource") {
			event = "token refreshed"
			delete(p.refresh, form.Get("refresh_token"))
		}
	case "assertion":
		event = "assertion redeemed"
	}
	if event == "" {
		mockas.Fail(rw, http.StatusBadRequest, "invalid_grant", "")
		return
	}
	w.events[event]++
	resource, err := url.Parse(form.Get("resource"))
	if err != nil {
		w.t.Error(err)
		return
	}
	access, refresh := w.plant("access token", p.host, resource.Host), w.plant("refresh token", p.host)
	p.access[access], p.refresh[refresh] = true, form
	mockas.JSON(rw, http.StatusOK, map[string]any{"access_token": access, "refresh_token": refresh, "token_type": "bearer", "expires_in": p.lifetime})
}

// checkLoggedOut checks that no token is refreshed after a logout.
func (w *hostileWorld) checkLoggedOut(form url.Values) {
	if form.Get("grant_type") == "refresh_token" && w.loggedOut[form.Get("resource")] {
		w.t.Errorf("seed %d: the token for %s is refreshed after a logout", w.seed, form.Get("resource"))
	}
}

// attack is a hostile authorization server.
func (p *party) attack(rw http.ResponseWriter, r *http.Request) {
	w := p.w
	victim := pick(w, w.honest)
	switch r.URL.Path {
	case issuerDocument:
		m, other := p.document(), victim.document()
		for _, name := range []string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"} {
			if w.chance(5) {
				m[name] = other[name]
				victim.registration = victim.registration || name == "registration_endpoint"
			}
		}
		if w.chance(5) {
			m["authorization_response_iss_parameter_supported"] = true
		}
		if w.chance(3) {
			m["client_id_metadata_document_supported"] = true
		}
		if w.chance(10) {
			m["issuer"] = victim.issuer()
		}
		mockas.JSON(rw, http.StatusOK, m)
	case "/register":
		if w.chance(2) {
			victim.registration = true
			victim.register(rw)
			return
		}
		mockas.JSON(rw, http.StatusCreated, map[string]any{"client_id": pick(w, []string{"robot", "own"}), "client_secret": "own-secret"})
	case "/authorize":
		q := r.URL.Query()
		if victim.iss && w.chance(2) {
			http.Redirect(rw, r, "https://"+victim.pages+"/authorize?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		answer := url.Values{"code": {"own-code"}, "state": {q.Get("state")}}
		if w.chance(2) {
			answer.Set("iss", pick(w, []string{p.issuer(), p.issuer(), victim.issuer()}))
		}
		http.Redirect(rw, r, q.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
	default:
		w.events["hostile token request"]++
		w.checkLoggedOut(r.Form)
		switch w.r.IntN(6) {
		case 0:
			http.Redirect(rw, r, victim.issuer()+r.URL.Path, http.StatusTemporaryRedirect)
		case 1:
			mockas.Fail(rw, http.StatusBadRequest, pick(w, []string{"invalid_grant", "invalid_client", "use_dpop_nonce"}), "")
		default:
			if form := r.Form; form.Get("grant_type") == "authorization_code" {
				w.loggedOut[form.Get("resource")] = false
			}
			mockas.JSON(rw, http.StatusOK, map[string]any{"access_token": "own-token", "refresh_token": "own-refresh", "token_type": "bearer", "expires_in": p.lifetime})
		}
	}
}

// listedStore is a Store that lists its keys.
type listedStore struct {
	oauth.Store
	mu   sync.Mutex
	keys map[oauth.Key]bool
}

func (s *listedStore) mark(k oauth.Key, present bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[oauth.Key]bool{}
	}
	s.keys[k] = present
}

func (s *listedStore) Put(ctx context.Context, k oauth.Key, value []byte) error {
	s.mark(k, true)
	return s.Store.Put(ctx, k, value)
}

func (s *listedStore) Delete(ctx context.Context, k oauth.Key) error {
	s.mark(k, false)
	return s.Store.Delete(ctx, k)
}

// follower is a user agent that follows redirects, as browsers do.
type follower struct{ w *hostileWorld }

const followerURI = "http://127.0.0.1:1/callback"

func (f follower) Begin(context.Context, []string) (oauth.Redirect, error) { return f, nil }
func (follower) URI() string                                               { return followerURI }
func (follower) Close() error                                              { return nil }

func (f follower) Wait(ctx context.Context, address string, accept func(string) bool) (url.Values, error) {
	for range 4 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, err
		}
		resp, err := f.w.client().Do(req)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		u, err := resp.Location()
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(u.String(), followerURI+"?") {
			return u.Query(), nil
		}
		address = u.String()
	}
	return nil, errors.New("too many redirects")
}

// asserting is a Grant without a user that presents the token of a platform.
type asserting struct{ token auth.Secret }

func (asserting) NeedsUser() bool   { return false }
func (asserting) NeedsClient() bool { return true }
func (a asserting) Token(ctx context.Context, t *oauth.Target) (*oauth.Token, error) {
	return t.Exchange(ctx, url.Values{"grant_type": {"assertion"}, "assertion": {a.token.Reveal()}})
}

// authorizers returns Authorizers that share the store.
func (w *hostileWorld) authorizers() []*oauth.Authorizer {
	c := oauth.Options{HTTP: &http.Client{Transport: w}, Store: w.store}
	var hosts []string
	for _, p := range w.honest {
		if p.named {
			hosts = append(hosts, p.host)
			p.clients["robot"] = w.plant("secret of a configured client", p.host)
			c.Clients = append(c.Clients, oauth.Client{Issuer: p.issuer(), ID: "robot", Secret: auth.NewSecret(p.clients["robot"])})
		}
	}
	if w.chance(3) {
		c.ClientIDURL = "https://app.example/client.json"
	}
	if w.quiet {
		c.Grant = asserting{auth.NewSecret(w.plant("platform token", hosts...))}
	} else {
		c.User = follower{w}
	}
	star := c
	if !w.quiet && w.chance(2) {
		w.star = auth.NewSecret(fmt.Sprintf("STAR%016x", w.r.Uint64()))
		star.Clients = append(slices.Clone(c.Clients), oauth.Client{Issuer: "*", ID: "robot", Secret: w.star})
		for _, p := range w.honest {
			if !p.named {
				p.clients["robot"] = w.star.Reveal()
			}
		}
	}
	var list []*oauth.Authorizer
	for range 2 + w.r.IntN(2) {
		config := c
		if w.chance(2) {
			config = star
		}
		if w.chance(4) {
			config.User = nil
		}
		a, err := oauth.New(config)
		if err != nil {
			w.t.Fatal(err)
		}
		list = append(list, a)
	}
	return list
}

// act does one thing with an Authorizer and a server, and returns whether it was a logout.
func (w *hostileWorld) act(what int, a *oauth.Authorizer, s *protected) (logout bool) {
	ctx := w.t.Context()
	var err error
	switch what {
	case 0, 1, 2:
		_, err = sendThrough(ctx, w.client(), a, s.url(), tool)
		w.note("call")
	case 3:
		err = a.Login(ctx, s.url())
	case 4:
		_, err = a.Token(ctx, s.url())
	default:
		a.Logout(ctx, s.url())
		w.note("logout")
		return true
	}
	if errors.Is(err, oauth.ErrIssuer) || errors.Is(err, oauth.ErrNoClient) {
		w.note("refused")
	}
	return false
}

func (w *hostileWorld) note(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[event]++
}

// random returns a number below n.
func (w *hostileWorld) random(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

func (w *hostileWorld) run() {
	list := w.authorizers()
	for range 10 + w.random(20) {
		a, s, what := list[w.random(len(list))], w.servers[w.random(len(w.servers))], w.random(6)
		switch w.random(6) {
		case 0:
			time.Sleep(time.Duration(w.random(1200)) * time.Second)
		case 1:
			w.mu.Lock()
			w.move(s)
			w.mu.Unlock()
		case 2: // two processes at once
			var group sync.WaitGroup
			b, other := list[w.random(len(list))], w.random(6)
			group.Go(func() { w.act(what, a, s) })
			group.Go(func() { w.act(other, b, s) })
			group.Wait()
		default:
			if w.act(what, a, s) && !w.quiet {
				w.mu.Lock()
				w.loggedOut[s.url()] = true
				w.mu.Unlock()
			}
		}
	}
	w.check(list)
}

// check searches what the parties have received.
func (w *hostileWorld) check(list []*oauth.Authorizer) {
	for _, s := range w.servers {
		list[0].Logout(w.t.Context(), s.url())
	}
	for k, present := range w.store.keys {
		if k.Kind == "token" && present {
			w.t.Errorf("seed %d: after all logouts, the store has a token of %s for %s", w.seed, k.Issuer, k.Resource)
		}
	}
	if !w.star.Empty() {
		text, err := w.store.Get(w.t.Context(), oauth.Key{Kind: "client", Issuer: "*", Resource: "robot"})
		var bound struct{ Issuer string }
		if err == nil {
			err = json.Unmarshal(text, &bound)
		}
		if err != nil && !errors.Is(err, oauth.ErrNotFound) {
			w.t.Error(err)
		}
		if !strings.Contains(bound.Issuer, "evil") { // otherwise the first server was hostile, and has the secret
			w.planted = append(w.planted, planted{w.star.Reveal(), "secret of a bound client", []string{strings.TrimPrefix(bound.Issuer, "https://")}})
		}
	}
	for host, log := range w.received {
		text := log.String()
		for _, p := range w.planted {
			if !slices.Contains(p.hosts, host) && strings.Contains(text, p.text) {
				w.t.Errorf("seed %d: %s gets a %s that is meant for %v", w.seed, host, p.kind, p.hosts)
			}
		}
	}
}
