package jsonrpc

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// maxBatch is the largest number of messages in a batch.
const maxBatch = 1000

// Item is one element of a batch: a message, or an error and the parts of the message that could be
// read, as from [Parse].
type Item struct {
	Message Message
	Err     error // nil or a *codec.Error
}

// IsBatch reports whether data starts with an array, as a batch does.
func IsBatch(data []byte) bool {
	return wire.NewReader(data, wire.Limits{Size: max(len(data), 1)}).Kind() == wire.KindArray
}

// ParseBatch decodes a batch. Batches exist only in protocol revision 2025-03-26; for other
// revisions use [Parse], which rejects them. The error is not nil if the text is malformed, not an
// array, empty, or has more than 1000 messages. Otherwise each Item has the error of its own element.
func ParseBatch(data []byte, opts ...codec.Option) ([]Item, error) {
	return parseBatch(data, false, opts...)
}

// ParseReceivedBatch parses a batch like [ParseBatch], without a limit on its length, and tolerates
// the faults that [ParseReceived] names, in each element.
func ParseReceivedBatch(text []byte, opts ...codec.Option) ([]Item, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	return parseBatch(text, true, append(slices.Clip(opts), codec.AllowSize(text)...)...)
}

func parseBatch(data []byte, tolerant bool, opts ...codec.Option) ([]Item, error) {
	spans, err := codec.UnmarshalFunc(data, elements, opts...)
	if err != nil {
		return nil, err
	}
	items := make([]Item, len(spans))
	at := position{1, 1} // of data[done]
	done := 0
	for i, s := range spans {
		at = at.plus(codec.Position(data[done:s.from], s.from-done))
		done = s.from
		items[i].Message, items[i].Err = parse(data[s.from:s.to], nil, tolerant, opts...)
		if e, ok := items[i].Err.(*codec.Error); ok {
			p := at.plus(e.Line, e.Column)
			e.Offset, e.Line, e.Column = e.Offset+int64(s.from), p.line, p.column
			e.Pointer = "/" + strconv.Itoa(i) + e.Pointer
		}
	}
	return items, nil
}

// elements reads a batch and returns the positions of its elements.
func elements(r *wire.Reader) []span {
	start := r.Offset()
	if r.Kind() != wire.KindArray {
		r.Skip()
		r.End()
		r.Fail(start, jsonfault.NoBatch)
		return nil
	}
	var spans []span
	tooMany := -1
	for r.Array(); r.More(); {
		at := r.Offset()
		r.Skip()
		if len(spans) == maxBatch {
			tooMany = at
			continue
		}
		spans = append(spans, span{at, r.Offset()})
	}
	r.End()
	switch {
	case tooMany >= 0:
		r.Fail(tooMany, jsonfault.BatchSize)
	case len(spans) == 0:
		r.Fail(start, jsonfault.EmptyBatch)
	}
	return spans
}

// AppendBatch appends messages as a batch to dst; see [codec.Append]. It fails if there are none.
func AppendBatch(dst []byte, messages []Message) ([]byte, error) {
	return codec.Append(dst, batch(messages))
}

// batch is a batch to be written.
type batch []Message

func (b batch) EncodeJSON(w *wire.Writer) {
	if len(b) == 0 {
		w.Fail("", jsonfault.EmptyBatch)
	}
	wire.EncodeList(w, b)
}

// position is a line and a column, as in codec.Error.
type position struct{ line, column int }

// plus returns the position of the given line and column of a text that starts at p.
func (p position) plus(line, column int) position {
	if line == 1 {
		return position{p.line, p.column + column - 1}
	}
	return position{p.line + line - 1, column}
}

// span is the position of an element in the text.
type span struct{ from, to int }
