// Package jsonrpc is the envelope of JSON-RPC 2.0 as the Model Context Protocol uses it.
//
// # Words
//
// A message is one JSON object: a request, a notification, a response, which carries a result, or
// an error response. A member of a message that JSON-RPC does not define is kept in
// [Message.Extra]. A batch is an array of messages.
//
// # Rejected messages
//
// [Parse] reads one message from text that package codec accepts. The protocol restricts JSON-RPC,
// and so does this package. Each rule below has its own error, wrapped in a [*codec.Error] with the
// position. Unless noted otherwise, its [CodeOf] is -32600 (invalid request).
//
//   - The text is malformed: an error of package codec, with code -32700. It takes precedence over
//     all other errors, wherever it is in the text.
//   - The message is not an object: [ErrObject]. It is an array where no batch is allowed:
//     [ErrBatch].
//   - "jsonrpc" is missing or is not "2.0": [ErrVersion].
//   - The id is neither a string nor an integer: [ErrID]. Integers may have any size and form (7,
//     1.0, 1e3, 99999999999999999999), and the empty string is an id; all keep their exact text.
//     1.5 is rejected. So is null, except in an error response: some peers send it if they could
//     not read the id of the request.
//   - A response has no id: [ErrNoID]. An error response may have none.
//   - The method is not a string: [ErrMethod].
//   - Params are not an object: [ErrParams] or, for an array, [ErrPositional], with code -32602
//     (invalid params). JSON-RPC has positional params, but no method of the protocol takes them.
//   - The result is not an object (null included): [ErrResult].
//   - The error is not an object with an integer "code" and a string "message": [ErrError].
//   - The message has a result and an error: [ErrBoth]; a method and one of these: [ErrMixed]; none
//     of the three: [ErrNeither].
//
// [ParseReceived] and [ParseReceivedBatch], for peers that are connected now, tolerate some faults;
// [CanonicalID] helps to match the ids of their responses.
//
// # Preserved content
//
// EncodeJSON writes a message that Parse accepted with all its members and values, possibly in
// another order. Absent params or data stay absent, and null stays null. Params of a response have
// no meaning and are kept as an unknown member.
package jsonrpc
