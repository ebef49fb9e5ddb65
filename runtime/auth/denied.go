package auth

import (
	"net/http"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

// Denied is the error for a rejected request. The header of its response tells the client what is
// missing.
type Denied struct {
	// Status is 400 for a malformed request, 401 without valid credentials, 403 with too few scopes,
	// 500 after a panic of the verifier, and 503 if the verifier cannot decide.
	Status int
	Reason string // for the client
	Err    error  // for logs; nil if Reason is complete

	challenge authtext.Challenge // for WWW-Authenticate; zero for none
	nonce     string             // for DPoP-Nonce; "" for none
}

// Error returns the reason.
func (d *Denied) Error() string { return "auth: " + d.Reason }

// Unwrap returns Err.
func (d *Denied) Unwrap() error { return d.Err }

// SetHeader sets the header fields of the response: WWW-Authenticate, DPoP-Nonce, Cache-Control and
// Retry-After.
func (d *Denied) SetHeader(h http.Header) {
	if d.challenge.Scheme != "" {
		h.Set("WWW-Authenticate", d.challenge.String())
	}
	if d.nonce != "" {
		h.Set("DPoP-Nonce", d.nonce)
		h.Add("Vary", "DPoP")
	}
	h.Set("Cache-Control", "no-store")
	if d.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
}

// write writes the response, with the reason as plain text.
func (d *Denied) write(w http.ResponseWriter) {
	d.SetHeader(w.Header())
	http.Error(w, d.Reason, d.Status)
}

// Error codes of challenges (RFC 6750, section 3.1, and RFC 9449, sections 7.1 and 9).
const (
	codeInvalidRequest    = "invalid_request"
	codeInvalidToken      = "invalid_token"
	codeInsufficientScope = "insufficient_scope"
	codeInvalidProof      = "invalid_dpop_proof"
	codeUseNonce          = "use_dpop_nonce"
)

// deny returns a Denied with a challenge. code is "" if the request has no credentials. scopes are
// all scopes that the request needs.
func (p *Protector) deny(status int, scheme, code, reason string, scopes []string, err error) *Denied {
	c := authtext.Challenge{Scheme: scheme}
	add := func(name, value string) {
		if value != "" {
			c.Params = append(c.Params, authtext.Param{Name: name, Value: value})
		}
	}
	add("error", code)
	add("scope", strings.Join(scopes, " "))
	add("resource_metadata", p.metadataURL)
	if scheme == schemeDPoP {
		add("algs", strings.Join(p.metadata.DPoPAlgorithms, " "))
	}
	if code != "" {
		add("error_description", reason)
	}
	return &Denied{Status: status, Reason: reason, Err: err, challenge: c}
}
