// Package authtext reads and writes the texts of authorization that a server and a client exchange:
// the challenges of responses, and the canonical URLs of resources.
package authtext

import (
	"slices"
	"strings"
)

// Challenge is one challenge of a WWW-Authenticate header (RFC 9110, section 11.6.1). At most one
// of Token68 and Params is set.
type Challenge struct {
	Scheme  string // as received; schemes are case-insensitive
	Token68 string
	Params  []Param
}

// Param is a parameter of a challenge.
type Param struct {
	Name  string // ParseChallenges converts it to lower case
	Value string // without quotes
}

// Limits of ParseChallenges.
const (
	maxChallengeBytes  = 16 << 10
	maxChallenges      = 16
	maxChallengeParams = 64
)

// ParseChallenges returns the challenges in the values of a header, in order. It drops malformed
// elements and repeated parameters of a challenge. It accepts unquoted values with characters that
// need quotes, such as those of a URL, and parameters without commas between them. It reads at most
// 16 KiB, 16 challenges, and 64 parameters of each.
func ParseChallenges(values []string) []Challenge {
	var challenges []Challenge
	rest := maxChallengeBytes
	for _, value := range values {
		if len(value) > rest {
			value = value[:rest]
		}
		rest -= len(value)
		p := challengeParser{value}
		first := len(challenges) // a parameter belongs to a challenge of the same value
		for p.skip(", \t"); p.text != ""; p.skip(", \t") {
			name := p.token()
			if name == "" {
				p.skipElement()
				continue
			}
			after := p.text
			if value, ok := p.value(); ok {
				if len(challenges) > first {
					challenges[len(challenges)-1].add(strings.ToLower(name), value)
				}
				continue
			}
			if p.text != after { // an equals sign without a complete value
				p.skipElement()
				continue
			}
			if p.text != "" && !strings.ContainsRune(", \t", rune(p.text[0])) {
				p.skipElement()
				continue
			}
			if len(challenges) == maxChallenges {
				return challenges
			}
			p.skip(" \t")
			challenges = append(challenges, Challenge{Scheme: name, Token68: p.token68()})
		}
	}
	return challenges
}

// add adds a parameter unless the challenge already has one of that name.
func (c *Challenge) add(name, value string) {
	exists := slices.ContainsFunc(c.Params, func(p Param) bool { return p.Name == name })
	if !exists && c.Token68 == "" && len(c.Params) < maxChallengeParams {
		c.Params = append(c.Params, Param{name, value})
	}
}

// challengeParser parses the value of a header. text is the unread rest.
type challengeParser struct{ text string }

func (p *challengeParser) skip(chars string) { p.text = strings.TrimLeft(p.text, chars) }

// skipElement skips to the next comma outside quotes.
func (p *challengeParser) skipElement() {
	quoted := false
	for i := 0; i < len(p.text); i++ {
		switch p.text[i] {
		case '"':
			quoted = !quoted
		case '\\':
			if quoted {
				i++
			}
		case ',':
			if !quoted {
				p.text = p.text[i:]
				return
			}
		}
	}
	p.text = ""
}

// take reads the leading bytes that accept accepts.
func (p *challengeParser) take(accept func(byte) bool) string {
	i := 0
	for i < len(p.text) && accept(p.text[i]) {
		i++
	}
	taken := p.text[:i]
	p.text = p.text[i:]
	return taken
}

func (p *challengeParser) token() string { return p.take(isTokenByte) }

// token68 reads a token68 that extends to the next comma or the end. Otherwise, it returns "" and
// reads nothing.
func (p *challengeParser) token68() string {
	before := p.text
	text := p.take(func(b byte) bool { return token68Bytes[b] })
	if text != "" {
		text += p.take(func(b byte) bool { return b == '=' })
		p.skip(" \t")
		if p.text == "" || p.text[0] == ',' {
			return text
		}
	}
	p.text = before
	return ""
}

// value reads an equals sign and the value after it. Without an equals sign, it reads nothing.
func (p *challengeParser) value() (string, bool) {
	rest := strings.TrimLeft(p.text, " \t")
	if !strings.HasPrefix(rest, "=") {
		return "", false
	}
	p.text = rest[1:]
	p.skip(" \t")
	if !strings.HasPrefix(p.text, `"`) {
		value := p.take(func(b byte) bool { return b > ' ' && b < 0x7f && b != ',' && b != '"' })
		return value, value != "" && (p.text == "" || strings.ContainsRune(", \t", rune(p.text[0])))
	}
	var value strings.Builder
	for i := 1; i < len(p.text); i++ {
		b := p.text[i]
		switch {
		case b == '"':
			p.text = p.text[i+1:]
			return value.String(), true
		case b == '\\' && i+1 < len(p.text):
			i++
			b = p.text[i]
		}
		value.WriteByte(b)
	}
	p.text = ""
	return "", false
}

// IsToken68 reports whether text is a token68 (RFC 9110, section 11.2).
func IsToken68(text string) bool {
	body := strings.TrimRight(text, "=")
	for i := range len(body) {
		if !token68Bytes[body[i]] {
			return false
		}
	}
	return body != ""
}

// token68Bytes is the set of bytes of a token68, without the padding.
var token68Bytes = func() (set [256]bool) {
	for b := range len(set) {
		set[b] = isAlphanumeric(byte(b)) || strings.IndexByte("-._~+/", byte(b)) >= 0
	}
	return set
}()

func isAlphanumeric(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}

// isTokenByte reports whether b may be in a token (RFC 9110, section 5.6.2).
func isTokenByte(b byte) bool {
	return isAlphanumeric(b) || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// Param returns the value of a parameter, or "" if there is none. name is in lower case.
func (c Challenge) Param(name string) string {
	for _, p := range c.Params {
		if p.Name == name {
			return p.Value
		}
	}
	return ""
}

// Scopes returns the scopes in the parameter "scope" without duplicates, or nil if there are none.
// It drops scopes with characters that RFC 6749, section 3.3, does not allow.
func (c Challenge) Scopes() []string {
	var scopes []string
	for scope := range strings.SplitSeq(c.Param("scope"), " ") {
		valid := scope != "" && !strings.ContainsFunc(scope, func(r rune) bool {
			return r <= ' ' || r >= 0x7f || r == '"' || r == '\\'
		})
		if valid && !slices.Contains(scopes, scope) {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// String returns the challenge as the value of a header. It quotes parameter values, and removes
// their control and non-ASCII characters. It omits parameters whose name is not a token. It returns
// "" if the scheme is not a token.
func (c Challenge) String() string {
	if !isToken(c.Scheme) {
		return ""
	}
	var b strings.Builder
	b.WriteString(c.Scheme)
	if p := (challengeParser{c.Token68}); c.Token68 != "" {
		if token := p.token68(); p.text == "" && token == c.Token68 {
			b.WriteString(" " + token)
		}
		return b.String()
	}
	separator := " "
	for _, p := range c.Params {
		if !isToken(p.Name) {
			continue
		}
		b.WriteString(separator + p.Name + `="`)
		for i := range len(p.Value) {
			switch v := p.Value[i]; {
			case v == '"' || v == '\\':
				b.WriteByte('\\')
				b.WriteByte(v)
			case v >= ' ' && v < 0x7f:
				b.WriteByte(v)
			}
		}
		b.WriteByte('"')
		separator = ", "
	}
	return b.String()
}

func isToken(s string) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return s != ""
}
