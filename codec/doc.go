// Package codec encodes and decodes the generated protocol types as JSON text: [Marshal] and
// [Append], [Unmarshal] and [UnmarshalFunc]. It uses the standard library only, without reflection
// and without package unsafe. For Go values of other types, such as the structs of a tool's author,
// use package value. The Reader and the Writer are in package wire. To implement [Decoder] and
// [Encoder] for a type of your own, import it too; the example of this package shows how. On amd64
// processors with AVX2, long texts are scanned with vector instructions. The build tag purego
// disables them.
//
// # Words
//
// A text is the whole input: one JSON value with white space around it. A value is an object, an
// array, a string, a number, true, false or null. An object has members, each with a name and a
// value; an array has elements. A scalar is a string, a number or a boolean. Raw means JSON text
// that was checked but not decoded. An unknown member is one whose name the Go type does not know;
// it is kept raw in a [wire.Extra]. It also keeps known members whose value the type cannot
// hold. A malformed text breaks a rule of this package for every type. A well-formed text may still
// have the wrong shape for one type.
//
// # Errors
//
// An error is an [*Error]. It says what is wrong, at which byte offset, line and column, and where
// in the value, as a JSON pointer (RFC 6901). Decoding does not track these places: after a
// failure, they are computed in a second pass over the text.
//
// # What is refused
//
// RFC 8259 leaves some things to the receiver. These are the choices made here. Their errors wrap
// [ErrSyntax] unless another class is named.
//
//   - A text that breaks the grammar (sections 2 to 7).
//   - Anything but white space after the value (section 2).
//   - A text that ends early, the empty text included. The error wraps [io.ErrUnexpectedEOF], too.
//   - A byte order mark (section 8.1 lets a receiver ignore one, and forbids sending one).
//   - Bytes that are not UTF-8 (section 8.1). They are never replaced by U+FFFD.
//   - An escape that names half of a surrogate pair (section 8.2).
//   - Two members of one object with the same name, compared after escapes are decoded:
//     [ErrDuplicate] (section 4). That holds at every depth, in raw values too.
//   - A value that takes more than 20 bytes of memory for each byte of the text, and 256 KiB, such as
//     a long list of empty objects: [ErrLimit]. Strings and raw values do not count, because they
//     take about as much as their text.
//   - More than [MaxDepth], [MaxSize] or [MaxString] allow: [ErrLimit] (section 9).
//
// Names are compared exactly: "ID" is not "id". Numbers have no limit of their own: a number that
// does not fit an int64 or a float64 keeps its text (section 6).
//
// # Memory
//
// Strings never share memory with the input. They are parts of private copies, which are allocated
// in blocks: decoding a message takes a few allocations instead of one per string. A string keeps
// its whole block in memory, so clone a string that must outlive its message by far. Raw values are
// copies of their own, unless [NoCopy] is given.
//
// # Concurrency
//
// All functions and values of this package are safe for concurrent use. That includes a
// [wire.Extra], as long as no goroutine changes the variable.
package codec
