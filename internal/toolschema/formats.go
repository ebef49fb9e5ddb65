package toolschema

import (
	"errors"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/internal/pattern"
)

// format is a value of the keyword format that is known.
type format struct {
	name  string
	check func(text string) error
}

// formats are the known formats. Drafts until 7 assert them; later ones only annotate.
var formats = map[string]func(text string) error{
	"date-time":             isDateTime,
	"date":                  isDate,
	"time":                  isTime,
	"duration":              matches(`^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)$`, "PT"),
	"email":                 isEmail,
	"hostname":              isHostname,
	"ipv4":                  isIPv4,
	"ipv6":                  isIPv6,
	"uri":                   isURI,
	"iri":                   isURI,
	"uri-reference":         isReference,
	"iri-reference":         isReference,
	"uri-template":          matches(`^([^{}]|\{[^{}]+\})*$`, ""),
	"json-pointer":          matches(`^(/([^~/]|~[01])*)*$`, ""),
	"relative-json-pointer": matches(`^(0|[1-9][0-9]*)(#|(/([^~/]|~[01])*)*)$`, ""),
	"uuid":                  matches(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`, ""),
	"regex":                 isPattern,
}

var errFormat = errors.New("malformed")

// matches returns the check of a format that a pattern describes, but for one of the characters
// last at the end.
func matches(text, last string) func(string) error {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
	return func(text string) error {
		if !compiled().MatchString(text) || last != "" && strings.ContainsAny(text[len(text)-1:], last) {
			return errFormat
		}
		return nil
	}
}

var hasTimeForm = matches(`^([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)(\.[0-9]+)?([zZ]|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`, "")

// isTime checks a full-time of RFC 3339. A leap second is the last one of a day in UTC.
func isTime(text string) error {
	if err := hasTimeForm(text); err != nil {
		return err
	}
	if text[6:8] != "60" {
		return nil
	}
	zone := strings.TrimLeft(text[8:], ".0123456789")
	t, err := time.Parse("15:04:05Z07:00", text[:6]+"59"+strings.ToUpper(zone))
	if err == nil && t.UTC().Format("15:04") != "23:59" {
		err = errors.New("a leap second at another time than 23:59:60 UTC")
	}
	return err
}

func isDate(text string) error {
	_, err := time.Parse(time.DateOnly, text)
	return err
}

func isDateTime(text string) error {
	if len(text) < len("2006-01-02T") || text[10]|0x20 != 't' {
		return errFormat
	}
	if err := isDate(text[:10]); err != nil {
		return err
	}
	return isTime(text[11:])
}

var hasLabels = matches(`^[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?(\.[0-9A-Za-z]([-0-9A-Za-z]{0,61}[0-9A-Za-z])?)*\.?$`, "")

func isHostname(text string) error {
	if len(strings.TrimSuffix(text, ".")) > 253 {
		return errors.New("more than 253 characters")
	}
	return hasLabels(text)
}

var hasLocalPart = matches(`^("[^"\\]*"|[^\s"(),.:;<>@[\\\]\x00-\x1f\x7f-\x{10ffff}]+(\.[^\s"(),.:;<>@[\\\]\x00-\x1f\x7f-\x{10ffff}]+)*)$`, "")

func isEmail(text string) error {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || at > 64 || len(text) > 254 {
		return errFormat
	}
	if err := hasLocalPart(text[:at]); err != nil {
		return err
	}
	domain := text[at+1:]
	if !strings.HasPrefix(domain, "[") || !strings.HasSuffix(domain, "]") {
		return isHostname(domain)
	}
	literal := domain[1 : len(domain)-1]
	if v6, ok := strings.CutPrefix(literal, "IPv6:"); ok {
		return isIPv6(v6)
	}
	return isIPv4(literal)
}

func isIPv4(text string) error {
	if a, err := netip.ParseAddr(text); err != nil || !a.Is4() {
		return errFormat
	}
	return nil
}

func isIPv6(text string) error {
	if a, err := netip.ParseAddr(text); err != nil || a.Is4() || a.Zone() != "" {
		return errFormat
	}
	return nil
}

func isURI(text string) error {
	u, err := parseURI(text)
	if err == nil && !u.IsAbs() {
		err = errors.New("not absolute")
	}
	return err
}

func isReference(text string) error {
	_, err := parseURI(text)
	return err
}

// parseURI parses a reference. Unlike package url, it refuses a backslash and a wrong IPv6 address.
func parseURI(text string) (*url.URL, error) {
	if strings.Contains(text, `\`) {
		return nil, errFormat
	}
	u, err := url.Parse(text)
	if err == nil && strings.Contains(u.Hostname(), ":") {
		err = isIPv6(u.Hostname())
	}
	return u, err
}

// isPattern checks a pattern of one set, whose size is limited.
func isPattern(text string) error {
	var p pattern.Set
	_, err := p.Compile(text)
	return err
}
