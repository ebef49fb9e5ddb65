// Package jsonrpc is the envelope of JSON-RPC 2.0 as the Model Context Protocol uses it.
//
// # Words
//
// A message is one JSON object: a request, a notification, a response, which carries a result, or
// an error response. A member of a message that JSON-RPC does not define is kept in
// [Message.Extra]. A batch is an array of messages.
//
// # What is refused
//
// [Parse] takes one message from text that package codec finds well formed. The protocol narrows
// JSON-RPC, and so does this package; each refusal has an error of its own, inside a [*codec.Error]
// that says where. Unless noted otherwise, [CodeOf] gives -32600 (invalid request) for it.
//
//   - Malformed text: an error of package codec, with code -32700. It takes precedence over all
//     faults below, wherever it is in the text.
//   - No object: [ErrObject]; an array where no batch is allowed: [ErrBatch].
//   - "jsonrpc" missing, or anything but "2.0": [ErrVersion].
//   - An id that is neither a string nor an integer: [ErrID]. Integers may be of any size and form
//     (7, 1.0, 1e3, 99999999999999999999), and the empty string is an id; all keep their exact
//     text. 1.5 is refused, and so is null, except in an error response: some peers send it there
//     where the id of the request could not be read.
//   - A response without id: [ErrNoID]. An error response may have no id.
//   - A method that is no string: [ErrMethod].
//   - Params that are no object: [ErrParams] or, for an array, [ErrPositional], with code -32602
//     (invalid params): JSON-RPC has positional params, but no method of the protocol takes them.
//   - A result that is no object, null included: [ErrResult].
//   - An error that is no object with an integer "code" and a string "message": [ErrError].
//   - A result beside an error: [ErrBoth]; a method beside either: [ErrMixed]; none of the three:
//     [ErrNeither].
//
// # What is kept
//
// EncodeJSON writes a message that Parse accepted with all its members and values, but possibly in
// another order. Absent params or data stay absent, and null stays null. Params of a response have
// no meaning and are kept as an unknown member.
package jsonrpc
