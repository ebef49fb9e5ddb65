package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// keySize is the length of the key of an input request.
const keySize = 16

// InputKey returns the key of an input request: a digest of its method and of its params without
// _meta. Params must be well-formed JSON. The order of members and the escapes of strings do not
// matter.
func InputKey(method string, params json.RawMessage) string {
	buf := appendText(make([]byte, 0, 512), method)
	sum := sha256.Sum256(appendCanonical(buf, params, "_meta"))
	return string(sum[:keySize])
}

// appendCanonical appends a binary form of well-formed JSON that is the same for all texts of one
// value, except that numbers keep their text. It leaves out the member without of an object.
func appendCanonical(dst []byte, text json.RawMessage, without string) []byte {
	if len(text) == 0 {
		return append(dst, 'z')
	}
	codec.ReadPart(text, func(r *wire.Reader) { dst = appendValue(dst, r, without) })
	return dst
}

func appendValue(dst []byte, r *wire.Reader, without string) []byte {
	switch r.Kind() {
	case wire.KindObject:
		return appendObject(dst, r, without)
	case wire.KindArray:
		dst = append(dst, '[')
		for r.Array(); r.More(); {
			dst = appendValue(dst, r, "")
		}
		return append(dst, ']')
	case wire.KindString:
		return appendText(append(dst, 's'), r.TextBytes())
	}
	return appendText(append(dst, 'v'), r.RawBytes()) // a number, true, false or null
}

// appendObject is appendValue for an object. It sorts the members.
func appendObject(dst []byte, r *wire.Reader, without string) []byte {
	type member struct{ start, value, end int }
	var few [16]member
	members, sorted := few[:0], true
	dst = append(dst, '{')
	first := len(dst)
	for r.Object(); r.More(); {
		m := member{start: len(dst)}
		name := r.KeyBytes()
		if without != "" && string(name) == without {
			r.Skip()
			continue
		}
		dst = appendText(dst, name)
		m.value = len(dst)
		dst = appendValue(dst, r, "")
		m.end = len(dst)
		if n := len(members); n > 0 && bytes.Compare(dst[members[n-1].start:members[n-1].value], dst[m.start:m.value]) > 0 {
			sorted = false
		}
		members = append(members, m)
	}
	if !sorted {
		text := bytes.Clone(dst)
		slices.SortFunc(members, func(a, b member) int { return bytes.Compare(text[a.start:a.value], text[b.start:b.value]) })
		dst = dst[:first]
		for _, m := range members {
			dst = append(dst, text[m.start:m.end]...)
		}
	}
	return append(dst, '}')
}

// appendText appends a text with its length.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}
