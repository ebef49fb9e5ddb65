package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Copies that share a buffer keep their contents when more copies are added to the buffer.
func TestPiecesKeepContents(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	sizes := []int{0, 1, 7, 8, 9, 63, smallCopy - 1, smallCopy, smallCopy + 1, pieceSize / 3, pieceSize - 1, pieceSize, pieceSize + 1, maxPiece + 1}
	for range 200 {
		var p pieces
		type copied struct {
			got  func() string
			want string
		}
		var all []copied
		var texts [3][]byte
		var wants [3]string
		var own [3]bool
		for i := range 300 {
			size := sizes[random.IntN(len(sizes))]
			if random.IntN(3) > 0 {
				size = random.IntN(40)
			}
			from := bytes.Repeat([]byte{byte('a' + i%26)}, size)
			want := string(from)
			switch random.IntN(4) {
			case 0:
				s := p.string(from)
				all = append(all, copied{func() string { return s }, want})
			case 1:
				raw := p.raw(from)
				if cap(raw) > len(raw) && len(raw) <= smallCopy {
					t.Fatalf("seed %d: a small copy has spare capacity", seed)
				}
				all = append(all, copied{func() string { return string(raw) }, want})
			default:
				k := random.IntN(len(texts))
				if random.IntN(10) == 0 { // the text is shared from now on
					text := texts[k]
					all = append(all, copied{func() string { return string(text) }, wants[k]})
					own[k] = false
				}
				texts[k] = p.extend(texts[k], own[k], from)
				own[k], wants[k] = true, wants[k]+want
			}
			clear(from)
			if random.IntN(40) == 0 {
				p.more = 0
			}
		}
		for k := range texts {
			all = append(all, copied{func() string { return string(texts[k]) }, wants[k]})
		}
		for i, c := range all {
			if c.got() != c.want {
				t.Fatalf("seed %d: copy %d of %d bytes has changed", seed, i, len(c.want))
			}
		}
	}
}
