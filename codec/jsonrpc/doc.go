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
// and so does this package. A message that breaks one of these rules fails with a [*codec.Error] that
// says which one, and where. Unless noted otherwise, its [CodeOf] is -32600 (invalid request).
//
//   - The text is malformed: an error of package codec, with code -32700. It takes precedence over
//     all other errors, wherever it is in the text.
//   - The message is not an object. An array is only allowed where a batch is.
//   - "jsonrpc" is missing or is not "2.0".
//   - The id is neither a string nor an integer. Integers may have any size and form (7,
//     1.0, 1e3, 99999999999999999999), and the empty string is an id; all keep their exact text.
//     1.5 is rejected. So is null, except in an error response: some peers send it if they could
//     not read the id of the request.
//   - A response has no id. An error response may have none.
//   - The method is not a string.
//   - Params are not an object. For an array, the code is -32602 (invalid params): JSON-RPC has
//     positional params, but no method of the protocol takes them.
//   - The result is not an object (null included).
//   - The error is not an object with an integer "code" and a string "message".
//   - The message has a result and an error, or a method and one of these, or none of the three.
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
