// Package value carries Go values whose types are known at run time only, such as a caller's own
// structs for the arguments and the output of a tool, through package codec:
//
//	err := codec.Unmarshal(params.Arguments, value.Of(&args))
//	text, err := codec.Marshal(value.Of(output))
//
// Package codec checks the text first, so that all that its package comment says of malformed text,
// of limits and of errors holds here, too. Then an engine that works by reflection,
// github.com/goccy/go-json/v2, moves the values; docs/values.md says why that one. [Decode] is for
// text that was checked before.
//
// # What becomes of a value
//
// Struct tags and the methods MarshalJSON, UnmarshalJSON, MarshalText and UnmarshalText mean what
// they mean to encoding/json, and the JSON form of a type is the one that it has there, but for
// these choices:
//
//   - Names are compared exactly: "Name" is not "name", but an unknown member, and unknown members
//     are skipped. What a schema took for unknown never ends up in a field.
//   - A number in an empty interface becomes a [json.Number], of any size and with its exact text,
//     never a float64. A json.Number takes numbers only, not strings.
//   - An integer type takes 1.0 and 1e3, as JSON Schema does. What is no integer or does not fit is
//     refused, and so is a number beyond what a float type holds. A text with such an integer is
//     decoded twice, so that methods of other values in it may be called twice.
//   - A null sets what it is decoded into to its zero value.
//   - An array takes exactly as many elements as it has.
//   - A nil slice is written as [] and a nil map as {}, which is what a schema calls an array and
//     an object. A nil pointer or interface is written as null.
//   - Methods with a pointer receiver are called on every value of the type, inside of maps too.
//   - A type with the method AppendText is written by it, as by encoding/json from Go 1.27 on.
//     MarshalText writes the keys of a map for every type of key, as UnmarshalText reads them;
//     encoding/json does not call it for strings.
//   - Characters are escaped only where JSON demands it, and a string that is not UTF-8 is refused.
//   - In struct tags, a name may have any characters except commas, quotes and backslashes. The
//     options case:ignore (names in another case) and embed (members of a struct or map in the
//     object around it) are those of encoding/json/v2. A struct with the option format, with other
//     characters in the options than letters, digits and underscores, or with quotes or backslashes
//     in a name is refused.
//   - The tag option string is ignored for a type that it does not apply to. Such a field is
//     refused in types with an empty interface that has a name of its own, and in texts with an
//     integer such as 1.0. A json.Number with the option is written as a string, and not read.
//
// What is absent from the text leaves its field as it was, so that a field can be given its default
// before decoding.
package value
