package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

// newMemory returns an empty Store in memory.
func newMemory() Store { return &memory{values: map[Key][]byte{}, locks: map[Key]chan struct{}{}} }

type memory struct {
	mu     sync.Mutex
	values map[Key][]byte
	locks  map[Key]chan struct{} // held locks; closed when they are released
}

func (m *memory) Get(_ context.Context, k Key) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[k]
	if !ok {
		return nil, ErrNotFound
	}
	return slices.Clone(value), nil
}

func (m *memory) Put(_ context.Context, k Key, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[k] = slices.Clone(value)
	return nil
}

func (m *memory) Delete(_ context.Context, k Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, k)
	return nil
}

// Lock excludes the other Authorizers that use the store.
func (m *memory) Lock(ctx context.Context, k Key) (unlock func(), err error) {
	for {
		m.mu.Lock()
		held := m.locks[k]
		if held == nil {
			held = make(chan struct{})
			m.locks[k] = held
			m.mu.Unlock()
			return sync.OnceFunc(func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				delete(m.locks, k)
				close(held)
			}), nil
		}
		m.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// binding is the stored state of a server.
type binding struct {
	Issuer   string   `json:"issuer"`
	Resource string   `json:"resource"`         // as published
	Scopes   []string `json:"scopes,omitempty"` // requested so far
}

// storedClient is the stored form of a Client. It holds the secret in plain text.
type storedClient struct {
	ID           string    `json:"client_id"`
	Secret       string    `json:"client_secret,omitempty"`
	Method       string    `json:"token_endpoint_auth_method,omitempty"`
	RedirectURIs []string  `json:"redirect_uris,omitempty"`
	Expires      time.Time `json:"expires,omitzero"`
}

func storeClient(c *Client) storedClient {
	return storedClient{c.ID, c.Secret.Reveal(), c.Method, c.RedirectURIs, c.Expires}
}

func (s storedClient) client(issuer string) *Client {
	return &Client{Issuer: issuer, ID: s.ID, Secret: auth.NewSecret(s.Secret).For(issuer), Method: s.Method, RedirectURIs: s.RedirectURIs, Expires: s.Expires}
}

// storedToken is the stored form of a grantedToken.
type storedToken struct {
	Access   string       `json:"access_token"`
	Refresh  string       `json:"refresh_token,omitempty"`
	Type     string       `json:"token_type"`
	Scopes   []string     `json:"scopes,omitempty"`
	Issued   time.Time    `json:"issued"`
	Expiry   time.Time    `json:"expiry,omitzero"`
	Key      string       `json:"key,omitempty"`
	Client   storedClient `json:"client,omitzero"`
	Endpoint string       `json:"token_endpoint,omitempty"` // that issued the token; "" in values of earlier versions
}

// grantedToken is a token with the state that is needed to refresh it.
type grantedToken struct {
	Token
	issuer    string // the authorization server that issued it, and the only one to which it is sent
	endpoint  string // the token endpoint that issued it; "" if it is not known
	issued    time.Time
	client    *Client // nil if the grant needs no client
	refreshed bool    // whether it is the result of a refresh in this process
	fresh     bool    // whether it was obtained in this process
	stored    bool    // whether it is or was in the store: if it is not there any more, the user has logged out

	sentFirst atomic.Bool // whether the first attempt of a message used it: then it was not obtained for that message
}

func (t *grantedToken) encode() ([]byte, error) {
	s := storedToken{Access: t.Access.Reveal(), Refresh: t.Refresh.Reveal(), Type: t.Type, Scopes: t.Scopes, Issued: t.issued, Expiry: t.Expiry, Key: t.Key.Reveal(), Endpoint: t.endpoint}
	if t.client != nil {
		s.Client = storeClient(t.client)
	}
	return json.Marshal(s)
}

// bind limits the recipients of the token: the access token is for the server and for the endpoint
// that issued it, where it can be revoked, and the refresh token for that endpoint alone. The
// metadata of an issuer may change later, and then name an endpoint of another party.
func (t *grantedToken) bind(server string) {
	if t.endpoint != "" {
		t.Access, t.Refresh = t.Access.For(server, t.endpoint), t.Refresh.For(t.endpoint)
	}
}

func decodeToken(issuer, server string, text []byte) (*grantedToken, error) {
	var s storedToken
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, errMalformed // the text of err may contain a part of the token
	}
	t := &grantedToken{Token: Token{Access: auth.NewSecret(s.Access), Refresh: auth.NewSecret(s.Refresh), Type: s.Type, Scopes: s.Scopes, Expiry: s.Expiry, Key: auth.NewSecret(s.Key)}, issuer: issuer, endpoint: s.Endpoint, issued: s.Issued, stored: true}
	t.bind(server)
	if s.Client.ID != "" {
		t.client = s.Client.client(issuer)
	}
	return t, nil
}

// expired reports whether t has expired at now.
func (t *grantedToken) expired(now time.Time) bool {
	return !t.Expiry.IsZero() && !now.Before(t.Expiry)
}

// stale reports whether t should be refreshed. The refresh is due skew or a tenth of the lifetime
// before the expiry, whichever is longer, but never in the first half of the lifetime.
func (t *grantedToken) stale(now time.Time, skew time.Duration) bool {
	if t.Expiry.IsZero() {
		return false
	}
	lifetime := t.Expiry.Sub(t.issued)
	margin := min(max(skew, lifetime/10), lifetime/2)
	return !now.Before(t.Expiry.Add(-margin))
}

var errMalformed = errors.New("the stored value is malformed")

// get decodes the stored JSON value of k into v. It returns false if k has no value.
func get(ctx context.Context, s Store, k Key, v any) (bool, error) {
	text, err := s.Get(ctx, k)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if json.Unmarshal(text, v) != nil {
		return false, fmt.Errorf("%w: kind %q", errMalformed, k.Kind)
	}
	return true, nil
}

func put(ctx context.Context, s Store, k Key, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.Put(ctx, k, text)
}
