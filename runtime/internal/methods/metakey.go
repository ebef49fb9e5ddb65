package methods

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// CheckMetaKey returns an error if key is not a valid name for a member of _meta. A valid name has
// an optional prefix and a name: "com.example/trace" (MCP base protocol, "_meta"). It does not
// allocate for a valid name.
func CheckMetaKey[T string | []byte](key T) error {
	if fault := metaKeyFault(key); fault != "" {
		return fmt.Errorf("session: _meta key %q: %s", key, fault)
	}
	return nil
}

// CheckMetaKeys checks the keys of the _meta at the beginning of a text; nil stands for none.
func CheckMetaKeys(meta []byte) (err error) {
	codec.ReadPart(meta, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more && err == nil; key, more = r.NextKey() {
			err = CheckMetaKey(key)
			r.Skip()
		}
	})
	return err
}

// metaKeyFault returns the fault of a key, or "".
func metaKeyFault[T string | []byte](key T) string {
	prefix, name, prefixed := cut(key, '/')
	if !prefixed {
		name = key
	}
	for more := prefixed; more; {
		var label T
		label, prefix, more = cut(prefix, '.')
		if !madeOf(label, "-") || !isLetter(label[0]) || !isAlphanumeric(label[len(label)-1]) {
			return "the prefix is not a sequence of labels such as com.example"
		}
	}
	if len(name) > 0 && (!madeOf(name, "-_.") || !isAlphanumeric(name[0]) || !isAlphanumeric(name[len(name)-1])) {
		return "the name does not begin and end with a letter or digit"
	}
	return ""
}

// ReservedMetaKey reports whether the prefix of a _meta name is reserved for the protocol (MCP base
// protocol, "_meta").
func ReservedMetaKey(key string) bool {
	prefix, _, prefixed := strings.Cut(key, "/")
	labels := strings.Split(prefix, ".")
	return prefixed && len(labels) > 1 && (labels[1] == "mcp" || labels[1] == "modelcontextprotocol")
}

// cut is strings.Cut for one byte.
func cut[T string | []byte](text T, sep byte) (before, after T, found bool) {
	for i := range len(text) {
		if text[i] == sep {
			return text[:i], text[i+1:], true
		}
	}
	return text, after, false
}

// madeOf reports whether text is not empty and consists of letters, digits and bytes of others.
func madeOf[T string | []byte](text T, others string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) && strings.IndexByte(others, text[i]) < 0 {
			return false
		}
	}
	return len(text) > 0
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func isAlphanumeric(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }
