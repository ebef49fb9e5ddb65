// Package codec encodes and decodes the generated protocol types as JSON text: [Marshal] and [Append], [Unmarshal] and
// [UnmarshalFunc]. It uses the standard library only, without reflection and without package unsafe. For Go values of
// any other type, such as the structs of a tool's author, there is package value. The code that reads and writes is in
// package wire: import that, too, to give a type of your own the methods of [Decoder] and [Encoder], as the example of
// this package shows. An amd64 processor with AVX2 scans long texts with vector instructions; the build tag purego
// leaves them out.
//
// # Words
//
// A text is the whole input: one JSON value with white space around it. A value is an object, an array, a
// string, a number, true, false or null. An object has members, each with a name and a value; an array has
// elements. A scalar is a string, a number or a boolean. Raw means: JSON text that was checked and not
// decoded. An unknown member is one whose name the Go type does not know; it is kept raw in an [Extra], which
// also keeps what the type knows but cannot hold. Malformed means that the text breaks a rule of this package
// whatever type was wanted; a text that is well formed may still be of the wrong shape for a type.
//
// # Errors
//
// An error is an [*Error]. It says what is wrong, at which byte offset, line and column, and where in the value, as a
// JSON pointer (RFC 6901). Decoding keeps no track of these places: they come from a second walk over the text, which
// is made only after a failure.
//
// # What is refused
//
// RFC 8259 leaves some things to the receiver. These are the choices made here; each has its own error.
//
//   - A text that breaks the grammar: [ErrSyntax], or a finer error that wraps it (sections 2 to 7).
//   - Anything but white space after the value: [ErrTrailing] (section 2).
//   - A text that ends early, the empty text included: [ErrEOF].
//   - A byte order mark: [ErrBOM] (section 8.1 lets a receiver ignore one, and forbids sending one).
//   - Bytes that are not UTF-8: [ErrUTF8] (section 8.1). Nothing is replaced by U+FFFD.
//   - An escape that names half of a surrogate pair: [ErrSurrogate] (section 8.2).
//   - Two members of one object with the same name, compared after escapes are decoded: [ErrDuplicate]
//     (section 4). That holds at every depth, in raw values too.
//   - More than [MaxDepth], [MaxSize] or [MaxString] allow: [ErrDepth], [ErrSize], [ErrStringSize] (section 9).
//
// Names are compared exactly: "ID" is not "id". Numbers have no limit of their own: what does not fit an int64
// or a float64 keeps its text (section 6).
//
// # Memory
//
// Strings never share memory with the input. They are cut from private copies that are made a block at a time,
// so that a message costs one copy, not one per string; a string that outlives its message by far keeps its
// block alive and is better cloned. Raw values are copies of their own, unless [NoCopy] is given.
//
// # Concurrency
//
// All functions and values of this package may be used by many goroutines at once. That includes an [Extra], as long as
// no goroutine changes that variable.
package codec
