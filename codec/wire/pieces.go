package wire

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Small copies share pieces of memory. A piece has pieceSize bytes at first, and up to maxPiece
// within a large message. A small copy keeps only its piece in memory.
const (
	pieceSize = 2 << 10
	maxPiece  = 4 * pieceSize
	smallCopy = pieceSize / 4 // a larger copy has memory of its own
)

// pieces makes copies of parts of the input. Small copies, also those of consecutive messages, lie
// next to each other in memory, so that they do not cost an allocation each. A copy is never
// overwritten.
type pieces struct {
	text  strings.Builder // the strings are parts of it; it never grows beyond its capacity
	bytes []byte
	more  int // added to pieceSize for the next piece
}

// size returns the size of the next piece.
func (p *pieces) size() int {
	n := pieceSize + p.more
	p.more = min(2*n, maxPiece) - pieceSize
	return n
}

// string returns s as a string.
func (p *pieces) string(s []byte) string {
	if len(s) > smallCopy {
		return string(s)
	}
	if p.text.Cap()-p.text.Len() < len(s) {
		p.text.Reset()
		p.text.Grow(p.size())
	}
	at := p.text.Len()
	p.text.Write(s)
	return p.text.String()[at:]
}

// raw returns a copy of s, which must have been checked. Changing the copy, or appending to it,
// does not affect other copies.
func (p *pieces) raw(s []byte) json.RawMessage {
	noteChecked(s)
	if len(s) > smallCopy {
		return bytes.Clone(s)
	}
	if cap(p.bytes)-len(p.bytes) < len(s) {
		p.bytes = make([]byte, 0, p.size())
	}
	at := len(p.bytes)
	p.bytes = append(p.bytes, s...)
	return p.bytes[at:len(p.bytes):len(p.bytes)]
}

// extend returns text with more appended. If own is set, text must be the last result of extend for
// it, or empty; extend may then append in place. Otherwise it leaves text unchanged and returns a
// copy.
func (p *pieces) extend(text []byte, own bool, more []byte) []byte {
	n := len(text) + len(more)
	at := len(p.bytes) - len(text)
	switch {
	case own && cap(text) >= n: // more fits into its capacity
	case n > smallCopy:
		text = append(make([]byte, 0, n+len(text)), text...)
	case own && at >= 0 && len(text) > 0 && &p.bytes[at] == &text[0] && cap(p.bytes) >= at+n: // text is at the end of p.bytes
		p.bytes = p.bytes[:at+n]
		text = p.bytes[at : at+len(text) : len(p.bytes)]
	default:
		room := n
		if own {
			room += n // spare capacity, so that not every call has to copy
		}
		if cap(p.bytes)-len(p.bytes) < room {
			p.bytes = make([]byte, 0, p.size())
		}
		at = len(p.bytes)
		p.bytes = p.bytes[:at+room]
		text = append(p.bytes[at:at:len(p.bytes)], text...)
	}
	return append(text, more...)
}
