package codec

import "github.com/mcpwire/mcpwire/codec/wire"

// Option changes how a text is read.
type Option func(*wire.Limits)

// MaxDepth allows n nested arrays and objects: MaxDepth(1) allows [] and rejects [[]] with
// [ErrLimit]. The default, also used for n < 1, is [wire.DefaultDepth].
func MaxDepth(n int) Option { return func(l *wire.Limits) { l.Depth = n } }

// MaxSize allows a text of n bytes; a longer text is rejected with an [ErrLimit] before it is read. The
// default, also used for n < 1, is [wire.DefaultSize].
func MaxSize(n int) Option { return func(l *wire.Limits) { l.Size = n } }

// AllowSize returns the options that allow the length of text: none if it is at most
// [wire.DefaultSize], and otherwise [MaxSize] with its length. Use it for received text, or a part
// of it, if the transport has already limited the length.
func AllowSize(text []byte) []Option {
	if len(text) <= wire.DefaultSize {
		return nil
	}
	return []Option{MaxSize(len(text))}
}

// MaxString allows n bytes between the quotes of a string or a member name, counted before escapes
// are decoded. A longer string is rejected with an [ErrLimit]. The default, also used for n < 1,
// is the limit of [MaxSize].
func MaxString(n int) Option { return func(l *wire.Limits) { l.String = n } }

// NoCopy makes raw values share the memory of the input: fields of type [encoding/json.RawMessage],
// the members in a [wire.Extra], and variants that a union does not know. Strings, numbers and
// errors are still copied.
//
// The caller must not change the input while a value decoded from it is in use: a change would show
// in raw values that are already checked. Each raw value keeps all of the input in memory.
// Appending to a raw value is safe, because its capacity is its length.
func NoCopy() Option { return func(l *wire.Limits) { l.NoCopy = true } }
