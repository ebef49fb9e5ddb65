package oauth

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// nonces holds the latest DPoP nonce of each origin (RFC 9449, section 8.2).
type nonces struct {
	mu       sync.Mutex
	byOrigin map[string]string
}

const maxNonces = 1000

func originOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

func (n *nonces) get(rawURL string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byOrigin[originOf(rawURL)]
}

// set stores the nonce of a response from rawURL. It ignores a missing or malformed nonce.
func (n *nonces) set(rawURL string, header http.Header) {
	nonce := header.Get("DPoP-Nonce")
	if nonce == "" || len(nonce) > 1000 || strings.ContainsFunc(nonce, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byOrigin == nil || len(n.byOrigin) >= maxNonces {
		n.byOrigin = map[string]string{}
	}
	n.byOrigin[originOf(rawURL)] = nonce
}
