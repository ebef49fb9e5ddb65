package modern_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

func TestHeaderValues(t *testing.T) {
	// Proves M-HDR-05, M-HDR-06, M-HDR-07, M-HDR-10, M-HDR-13.
	for _, row := range []struct{ text, value string }{
		{"us-west1", "us-west1"},
		{"", ""},
		{"a b c", "a b c"},
		{"a b\tc", "=?base64?YSBiCWM=?="},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"\ttab", "=?base64?CXRhYg==?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"\x00", "=?base64?AA==?="},
		{"\x7f", "=?base64?fw==?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="},
	} {
		if value := modern.EncodeHeader(row.text); value != row.value {
			t.Errorf("%q is encoded as %q, want %q", row.text, value, row.value)
		}
		for _, space := range []string{"", "  ", " \t "} {
			if text, err := modern.DecodeHeader(space + row.value + space); text != row.text || err != nil {
				t.Errorf("%q is decoded as %q, %v, want %q", space+row.value+space, text, err, row.text)
			}
		}
	}
	if text, err := modern.DecodeHeader("a\tb"); text != "a\tb" || err != nil {
		t.Errorf("a tab is decoded as %q, %v", text, err)
	}
	if text, err := modern.DecodeHeader("=?base64??="); text != "" || err != nil {
		t.Errorf("empty Base64 is decoded as %q, %v", text, err)
	}
}

// Every character survives in every position, and no value has other bytes than printable ASCII.
func TestEveryCharacterInHeaderValue(t *testing.T) {
	for r := range rune(0x180) {
		c := string(r)
		for _, text := range []string{c, c + "a", "a" + c, "a" + c + "b", c + c, "a " + c + " b"} {
			value := modern.EncodeHeader(text)
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) || value != strings.TrimSpace(value) {
				t.Errorf("%q is encoded as %q", text, value)
			}
			if back, err := modern.DecodeHeader(value); back != text || err != nil {
				t.Errorf("%q is encoded as %q, which is decoded as %q, %v", text, value, back, err)
			}
		}
	}
}

func TestHeaderValuesThatLookLikeBase64(t *testing.T) {
	// Proves M-HDR-08.
	for _, value := range []string{
		"=?BASE64?SGVsbG8=?=", "=?Base64?SGVsbG8=?=", "SGVsbG8=?=", "base64?SGVsbG8=?=", "=?base64?SGVsbG8=", "=?base64?SGVsbG8=?",
		"=?base64?=", "=?base64?", "?=", "x=?base64?SGVsbG8=?=",
	} {
		if text, err := modern.DecodeHeader(value); text != value || err != nil {
			t.Errorf("%q is decoded as %q, %v", value, text, err)
		}
		if encoded := modern.EncodeHeader(value); encoded != value {
			t.Errorf("%q is encoded as %q", value, encoded)
		}
	}
}

func TestInvalidHeaderValues(t *testing.T) {
	// Proves M-HDR-09.
	for _, value := range []string{
		"=?base64?SGVsbG8?=",             // no padding
		"=?base64?SGVs!!!bG8=?=",         // foreign characters
		"=?base64?SGVsbG9=?=",            // bits beyond the text
		"=?base64?SGVsbG8=SGVsbG8=?=",    // padding in the middle
		"=?base64?SGVs bG8=?=",           // a space
		"=?base64?_-_-?=",                // the alphabet of URLs
		"=?base64?/w==?=",                // not UTF-8
		"=?base64?SGVs\nbG8=?=",          // a line feed
		"Zürich", "a\x00b", "a\rb", "\n", // not ASCII
	} {
		if text, err := modern.DecodeHeader(value); err == nil {
			t.Errorf("%q is decoded as %q", value, text)
		}
	}
}

func FuzzHeaderValue(f *testing.F) {
	for _, text := range []string{"", "weather", " a", "=?base64?SGVsbG8=?=", "=?base64?SGVsbG8?=", "=?base64??=", "世界", "a\nb"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		// As a text.
		value := modern.EncodeHeader(text)
		for _, c := range []byte(value) {
			if c < ' ' || c > '~' {
				t.Errorf("%q is encoded as %q", text, value)
			}
		}
		if value != strings.TrimSpace(value) {
			t.Errorf("%q is encoded as %q, with space around it", text, value)
		}
		if back, err := modern.DecodeHeader(value); utf8.ValidString(text) && (back != text || err != nil) {
			t.Errorf("%q is encoded as %q, which is decoded as %q, %v", text, value, back, err)
		}
		// As a value.
		decoded, err := modern.DecodeHeader(text)
		if err != nil {
			return
		}
		if again, err := modern.DecodeHeader(modern.EncodeHeader(decoded)); again != decoded || err != nil || !utf8.ValidString(decoded) {
			t.Errorf("%q is decoded as %q, and after a round trip as %q, %v", text, decoded, again, err)
		}
	})
}
