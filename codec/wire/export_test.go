package wire

import "strconv"

// Constants for the tests of package wire_test.
const (
	PieceSize = pieceSize
	SmallCopy = smallCopy
	FewBytes  = cheapToCheck
)

var (
	NoteChecked = noteChecked
	WasChecked  = wasChecked
)

// objectAt returns an Object that has just read the member name.
func objectAt(r *Reader, x *Extra, name string) *Object {
	return &Object{r: r, extra: x, members: &Members{Names: []string{strconv.Quote(name) + ":"}}, last: 1}
}

// IntExact is [Object.Int] for the member name.
func (r *Reader) IntExact(x *Extra, name string) int64 { return objectAt(r, x, name).Int() }

// FloatExact is [Object.Float] for the member name.
func (r *Reader) FloatExact(x *Extra, name string) float64 { return objectAt(r, x, name).Float() }

// Source returns the text that r reads.
func (r *Reader) Source() []byte { return r.src }

// Pos returns the offset up to which everything is consumed.
func (r *Reader) Pos() int { return r.pos }

// SetPos sets what Pos returns.
func (r *Reader) SetPos(pos int) { r.pos = pos }

// SetScratch gives r a new scratch buffer of the given capacity.
func (r *Reader) SetScratch(capacity int) { r.scratch = make([]byte, 0, capacity) }

// Again resets r to data within the limits that it has.
func (r *Reader) Again(data []byte) { r.Reset(data, r.limits) }

// NameSpan reads a member name and returns its position, and whether it has escapes.
func (r *Reader) NameSpan() (start, end int, escaped bool) { return r.name() }

// Unescape decodes string content into the scratch buffer.
func (r *Reader) Unescape(content []byte) []byte { return r.unescape(content) }

// Ends returns the number of stored ends of values.
func (r *Reader) Ends() int { return r.ahead.Remembered() }

// Buf returns the buffer of w.
func (w *Writer) Buf() []byte { return w.buf }

// SetBuf sets the buffer of w.
func (w *Writer) SetBuf(buf []byte) { w.buf = buf }

// Kept returns how many names w holds, and the capacity for them.
func (w *Writer) Kept() (names, capacity int) {
	return len(w.keys) + len(w.names), max(cap(w.keys), cap(w.names))
}

// KeepsNames reports whether r still holds member names.
func (r *Reader) KeepsNames() bool { return r.check.HoldsNames() }
