// Package value encodes and decodes Go values of any type with package codec. The types need no
// generated code; they may be a caller's own structs for the arguments and the output of a tool:
//
//	err := codec.Unmarshal(params.Arguments, value.Of(&args))
//	text, err := codec.Marshal(value.Of(output))
//
// Package codec checks the text first. Its rules for malformed text, limits and errors therefore
// hold here, too. Then github.com/goccy/go-json/v2, which works by reflection, decodes or encodes
// the values; docs/explain/values.md gives the reasons for that choice. [Decode] is for text that
// was checked before.
//
// # JSON form of a value
//
// Struct tags and the methods MarshalJSON, UnmarshalJSON, MarshalText and UnmarshalText have the
// same meaning as in encoding/json, and each type has the same JSON form as there, with these
// exceptions:
//
//   - Names are compared exactly: for a field "name", a member "Name" is unknown. Unknown members
//     are skipped, so that no member that a schema treats as unknown sets a field.
//   - A number in an empty interface becomes a [json.Number], of any size and with its exact text,
//     never a float64. A json.Number takes numbers only, not strings.
//   - An integer type takes 1.0 and 1e3, as JSON Schema does. A text with such an integer is
//     decoded twice, so that methods of other values in it may be called twice. A number that is
//     not an integer or is out of range of the Go type is refused.
//   - A null sets the value it is decoded into to its zero value.
//   - An array takes exactly as many elements as it has.
//   - A nil slice is written as [] and a nil map as {}, so that they are an array and an object to
//     a schema. A nil pointer or interface is written as null.
//   - Methods with a pointer receiver are called on every value of the type, inside of maps too.
//   - A value of a type with the method AppendText is written by that method, as in encoding/json
//     from Go 1.27 on. Map keys of a type with the method MarshalText are written by that method,
//     even if they are strings; encoding/json does not call it for strings.
//   - Characters are escaped only where JSON demands it, and a string that is not UTF-8 is refused.
//   - In struct tags, a name may have any characters except commas, quotes and backslashes. The
//     options case:ignore (ignore the case of names) and embed (the members of a struct or map go
//     into the object around it) are those of encoding/json/v2. A struct with the option format is
//     refused. So is one whose tags have quotes or backslashes in a name, or options with
//     characters other than letters, digits and underscores.
//   - The tag option string is ignored for a type that it does not apply to. Such a field is
//     refused in types that contain a named empty interface type, and in texts with an integer such
//     as 1.0. A json.Number with the option is written as a string, and cannot be read back.
//
// A member that is absent from the text leaves its field unchanged, so that a field can be set to
// its default before decoding.
package value
