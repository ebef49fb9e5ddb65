// Package issuertest provides a browser and a client for tests of authorization servers. Both call
// handlers without a network.
package issuertest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Web has the handlers of a test by origin.
type Web map[string]http.Handler

// RoundTrip implements [http.RoundTripper].
func (w Web) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	r = r.Clone(r.Context())
	r.RequestURI, r.Host = r.URL.RequestURI(), r.URL.Host
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if h := w[r.URL.Scheme+"://"+r.URL.Host]; h != nil {
		h.ServeHTTP(rec, r)
	} else {
		rec.WriteHeader(http.StatusBadGateway)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// Browser is a browser with its own cookies.
type Browser struct {
	t      *testing.T
	client *http.Client
}

// Page is what a browser shows.
type Page struct {
	URL    *url.URL // after all redirects
	Status int
	Header http.Header
	Text   string
}

// NewBrowser returns a browser without cookies.
func NewBrowser(t *testing.T, web Web) *Browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{t, &http.Client{Transport: web, Jar: jar}}
}

func (b *Browser) page(resp *http.Response, err error) *Page {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &Page{resp.Request.URL, resp.StatusCode, resp.Header, string(text)}
}

// Get follows redirects from a URL.
func (b *Browser) Get(rawURL string) *Page {
	b.t.Helper()
	return b.page(b.client.Get(rawURL))
}

// Submit sends the form of a page with a decision and further values.
func (b *Browser) Submit(p *Page, decision string, more url.Values) *Page {
	b.t.Helper()
	values := url.Values{"decision": {decision}}
	for _, input := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(p.Text, -1) {
		values.Set(input[1], html.UnescapeString(input[2]))
	}
	for name, list := range more {
		values[name] = list
	}
	action := *p.URL
	action.RawQuery = ""
	return b.page(b.client.PostForm(action.String(), values))
}

// IsConsent reports whether a page is the consent page.
func (p *Page) IsConsent() bool {
	return p.Status == 200 && strings.Contains(p.Text, `value="approve"`)
}

// Verifier is the PKCE verifier of each test.
const Verifier = "a-verifier-of-pkce-with-more-than-43-characters"

// AuthorizeURL returns the URL of an authorization request, with parameters that replace the
// default ones. A parameter without values is left out.
func AuthorizeURL(issuer, client, redirectURI string, more url.Values) string {
	sum := sha256.Sum256([]byte(Verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirectURI}, "state": {"a state"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for name, list := range more {
		query[name] = list
	}
	return issuer + "/authorize?" + query.Encode()
}

// Post posts body as a form if it is a url.Values, and as JSON otherwise. It returns the status,
// and the response if that is JSON.
func (w Web) Post(t *testing.T, rawURL string, header http.Header, body any) (int, map[string]any) {
	t.Helper()
	text, kind := []byte(nil), "application/json"
	if form, ok := body.(url.Values); ok {
		text, kind = []byte(form.Encode()), "application/x-www-form-urlencoded"
	} else {
		text, _ = json.Marshal(body)
	}
	r, err := http.NewRequest(http.MethodPost, rawURL, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Content-Type", kind)
	resp, err := w.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	if text, _ := io.ReadAll(resp.Body); resp.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(text, &answer); err != nil {
			t.Fatalf("%s: status %d: %s", rawURL, resp.StatusCode, text)
		}
	}
	return resp.StatusCode, answer
}

// Register registers a public client and returns its id.
func (w Web) Register(t *testing.T, issuer, name string, redirectURIs ...string) string {
	t.Helper()
	status, answer := w.Post(t, issuer+"/register", nil, map[string]any{
		"client_name": name, "redirect_uris": redirectURIs, "token_endpoint_auth_method": "none",
	})
	id, _ := answer["client_id"].(string)
	if status != http.StatusCreated || id == "" {
		t.Fatalf("status %d, %v", status, answer)
	}
	return id
}

// Redeem exchanges the code in the URL of p, the page after the redirect to the client.
func (w Web) Redeem(t *testing.T, issuer, client, redirectURI string, p *Page) map[string]any {
	t.Helper()
	query := p.URL.Query()
	if query.Get("code") == "" || query.Get("iss") != issuer || query.Get("state") != "a state" || !strings.HasPrefix(p.URL.String(), redirectURI) {
		t.Fatalf("redirected to %v: status %d: %s", p.URL, p.Status, p.Text)
	}
	status, answer := w.Post(t, issuer+"/token", nil, url.Values{
		"grant_type": {"authorization_code"}, "code": {query.Get("code")}, "redirect_uri": {redirectURI},
		"client_id": {client}, "code_verifier": {Verifier},
	})
	if status != 200 || answer["token_type"] != "Bearer" {
		t.Fatalf("status %d, %v", status, answer)
	}
	return answer
}
