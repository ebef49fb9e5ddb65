package rerun

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// keySize is the length of the key of an input request.
const keySize = 16

// InputKey returns the key of an input request: a digest of its method and of its params without
// _meta. Params must be well-formed JSON, and must be encoded in the same way in all runs, except
// that the character U+FFFD may be escaped.
func InputKey(method string, params json.RawMessage) string {
	buf := make([]byte, 0, 512)
	buf = appendText(buf, method)
	if bytes.Contains(params, []byte(`"_meta"`)) {
		params = withoutMeta(params)
	}
	params = plainReplacements(params)
	sum := sha256.Sum256(append(buf, params...))
	return string(sum[:keySize])
}

// plainReplacements returns a text in which the character U+FFFD is not escaped. For text that is
// not UTF-8, encoding/json writes the character with an escape before Go 1.27, and without one
// since. Handlers make JSON with it, and programs of both versions run them.
func plainReplacements(text json.RawMessage) json.RawMessage {
	const escaped = `\ufffd`
	if !bytes.Contains(text, []byte(escaped)) {
		return text
	}
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		n := 1
		switch {
		case bytes.HasPrefix(text, []byte(escaped)):
			out, text = append(out, "\ufffd"...), text[len(escaped):]
			continue
		case text[0] == '\\' && len(text) > 1:
			n = 2 // the second byte may be a backslash that begins no escape
		}
		out, text = append(out, text[:n]...), text[n:]
	}
	return out
}

// withoutMeta returns an object without its member _meta.
func withoutMeta(params json.RawMessage) json.RawMessage {
	out := []byte{'{'}
	codec.ReadPart(params, func(r *wire.Reader) {
		for r.Object(); r.More(); {
			start := r.Offset()
			meta := string(r.KeyBytes()) == "_meta"
			r.Skip()
			if meta || r.Failed() {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, params[start:r.Offset()]...)
		}
	})
	return append(out, '}')
}

// canonical builds the canonical form of JSON.
type canonical struct {
	dst     []byte
	members []member             // of the objects that are being read
	read    func(r *wire.Reader) // the method value
}

var canonicals = sync.Pool{New: func() any {
	c := new(canonical)
	c.read = c.value
	return c
}}

// canonicalSum returns the digest of a text and the canonical form of JSON.
func canonicalSum(text []byte, value json.RawMessage) [sha256.Size]byte {
	c := canonicals.Get().(*canonical)
	c.dst = c.append(append(c.dst[:0], text...), value)
	sum := sha256.Sum256(c.dst)
	if cap(c.dst) > maxPooled {
		c.dst, c.members = nil, nil
	}
	canonicals.Put(c)
	return sum
}

// maxPooled is the maximum size in bytes of a pooled buffer.
const maxPooled = 16 << 10

// member is the place of a member of an object in canonical form.
type member struct{ start, value, end int }

// append appends a binary form of well-formed JSON that is the same for all texts of one value,
// except that numbers keep their text.
func (c *canonical) append(dst []byte, text json.RawMessage) []byte {
	if len(text) == 0 {
		return append(dst, 'z')
	}
	c.dst, c.members = dst, c.members[:0]
	codec.ReadPart(text, c.read)
	return c.dst
}

func (c *canonical) value(r *wire.Reader) {
	switch r.Kind() {
	case wire.KindObject:
		c.object(r)
	case wire.KindArray:
		c.dst = append(c.dst, '[')
		for r.Array(); r.More(); {
			c.value(r)
		}
		c.dst = append(c.dst, ']')
	case wire.KindString:
		c.dst = appendText(append(c.dst, 's'), r.TextBytes())
	default: // a number, true, false or null
		c.dst = appendText(append(c.dst, 'v'), r.RawBytes())
	}
}

// object is value for an object. It sorts the members.
func (c *canonical) object(r *wire.Reader) {
	c.dst = append(c.dst, '{')
	outer, first, sorted := len(c.members), len(c.dst), true
	for r.Object(); r.More(); {
		m := member{start: len(c.dst)}
		c.dst = appendText(c.dst, r.KeyBytes())
		m.value = len(c.dst)
		c.value(r)
		m.end = len(c.dst)
		if n := len(c.members); n > outer && compareNames(c.dst, c.members[n-1], m) > 0 {
			sorted = false
		}
		c.members = append(c.members, m)
	}
	if !sorted {
		text, members := bytes.Clone(c.dst), c.members[outer:]
		slices.SortFunc(members, func(a, b member) int { return compareNames(text, a, b) })
		c.dst = c.dst[:first]
		for _, m := range members {
			c.dst = append(c.dst, text[m.start:m.end]...)
		}
	}
	c.members = c.members[:outer]
	c.dst = append(c.dst, '}')
}

func compareNames(text []byte, a, b member) int {
	return bytes.Compare(text[a.start:a.value], text[b.start:b.value])
}

// appendText appends a text with its length.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
