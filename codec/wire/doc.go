// Package wire supports generated encoders and decoders. It has a Reader and a Writer for JSON
// text, tables of the members that a type knows, and ways to look ahead at the variants of a union.
// Code written by hand needs it only to give a type of its own the methods DecodeJSON and
// EncodeJSON of [codec.Decoder] and [codec.Encoder], as the example shows. To decode and encode
// values, call package codec, which also documents the rules, the limits and the use of memory.
//
// A [Reader] walks over one byte slice. Its first failure is final: afterwards every method returns
// a zero value and every loop ends. Decoders therefore need no error checks; package codec calls
// [Reader.Failure] at the end. A [Writer] appends to one byte slice and its first failure is final,
// too.
//
// A Reader or a Writer belongs to one goroutine at a time.
//
// [codec.Decoder]: https://pkg.go.dev/github.com/mcpwire/mcpwire/codec#Decoder
// [codec.Encoder]: https://pkg.go.dev/github.com/mcpwire/mcpwire/codec#Encoder
package wire
