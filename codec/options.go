package codec

import "github.com/mcpwire/mcpwire/codec/wire"

// The limits that hold where no option says otherwise.
const (
	DefaultMaxDepth = wire.DefaultDepth // arrays and objects inside each other
	DefaultMaxSize  = wire.DefaultSize  // bytes of a whole text
)

// Option changes how a text is read.
type Option func(*wire.Limits)

// MaxDepth allows n arrays and objects inside each other: with 1, [] is read and [[]] is [ErrDepth]. The
// default, also taken for n < 1, is [DefaultMaxDepth].
func MaxDepth(n int) Option { return func(l *wire.Limits) { l.Depth = n } }

// MaxSize allows a text of n bytes; a longer one is [ErrSize] before anything of it is read. The default, also
// taken for n < 1, is [DefaultMaxSize].
func MaxSize(n int) Option { return func(l *wire.Limits) { l.Size = n } }

// AllowSize returns the options with which text can be read whatever its length: none if it fits
// [DefaultMaxSize], and otherwise [MaxSize] with its length. Use it for a text, or a part of one,
// whose length was limited when it was received.
func AllowSize(text []byte) []Option {
	if len(text) <= DefaultMaxSize {
		return nil
	}
	return []Option{MaxSize(len(text))}
}

// MaxString allows n bytes between the quotes of a string or a member name, counted as they stand in the text,
// escapes and all; a longer one is [ErrStringSize]. The default, also taken for n < 1, is what [MaxSize]
// allows.
func MaxString(n int) Option { return func(l *wire.Limits) { l.String = n } }

// NoCopy lets raw values be parts of the input: fields of type [encoding/json.RawMessage], the members in an [Extra],
// and variants that a union does not know. All else is copied as without it, strings, numbers and errors included.
//
// The caller owes in return that the input stays as it is for as long as anything decoded from it is in use, by any
// goroutine: what is written to it shows in the raw values, though they were checked when they were read. As long as
// one of them is in use, all of the input stays in memory. A raw value may be appended to: its capacity ends where it
// does.
func NoCopy() Option { return func(l *wire.Limits) { l.NoCopy = true } }
