package hostile

import "strings"

// Limit is a text at or beyond a limit. A limit of 0 is not set; a negative one is passed on
// unchanged.
type Limit struct {
	Text
	MaxDepth, MaxSize, MaxString int
}

// The default limits.
const (
	DefaultMaxDepth = 512
	DefaultMaxSize  = 64 << 20
)

// Nested returns n arrays inside each other.
func Nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// Limits returns texts at limits and beyond them.
func Limits() []Limit {
	objects := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	long := func(n int) string { return `["` + strings.Repeat("x", n) + `"]` }
	tooDeep := Refusal{Depth, DefaultMaxDepth, strings.Repeat("/0", DefaultMaxDepth)}
	return []Limit{
		{Text: Text{"depth by default", Nested(DefaultMaxDepth), Refusal{}}},
		{Text: Text{"too deep by default", Nested(DefaultMaxDepth + 1), tooDeep}},
		{Text: Text{"objects too deep by default", objects(DefaultMaxDepth + 1), Refusal{Depth, 5 * DefaultMaxDepth, strings.Repeat("/a", DefaultMaxDepth)}}},
		{Text: Text{"depth of 100000", Nested(100000), tooDeep}},
		{Text: Text{"100000 opening brackets", strings.Repeat("[", 100000), tooDeep}},
		{Text: Text{"depth of one", `[1]`, Refusal{}}, MaxDepth: 1},
		{Text: Text{"two where one is allowed", `[1,{}]`, Refusal{Depth, 3, "/1"}}, MaxDepth: 1},
		{Text: Text{"depth counts nesting, not values", `[[],[],[[]]]`, Refusal{}}, MaxDepth: 3},
		{Text: Text{"depth of 10000, allowed", Nested(10000), Refusal{}}, MaxDepth: 10000},
		{Text: Text{"depth below one is the default", Nested(2), Refusal{}}, MaxDepth: -1},
		{Text: Text{"size", `[1234]`, Refusal{}}, MaxSize: 6},
		{Text: Text{"too large", `[1234]`, Refusal{Size, 5, ""}}, MaxSize: 5},
		{Text: Text{"too large by white space", `[1234] `, Refusal{Size, 6, ""}}, MaxSize: 6},
		{Text: Text{"too large and malformed", `xxxxxxx`, Refusal{Size, 6, ""}}, MaxSize: 6},
		{Text: Text{"size below one is the default", `[1234]`, Refusal{}}, MaxSize: -1},
		{Text: Text{"size by default", strings.Repeat(" ", DefaultMaxSize-2) + `[]`, Refusal{}}},
		{Text: Text{"a byte more than the default", strings.Repeat(" ", DefaultMaxSize-1) + `[]`, Refusal{Size, DefaultMaxSize, ""}}},
		{Text: Text{"string", long(10), Refusal{}}, MaxString: 10},
		{Text: Text{"string too long", long(11), Refusal{StringSize, 1, "/0"}}, MaxString: 10},
		{Text: Text{"string too long by its escapes", `["\u0041\u0041"]`, Refusal{StringSize, 1, "/0"}}, MaxString: 10},
		{Text: Text{"string too long by its bytes", `["éééééé"]`, Refusal{StringSize, 1, "/0"}}, MaxString: 10},
		{Text: Text{"name too long", `{"ok":{"12345678901":1}}`, Refusal{StringSize, 7, "/ok/12345678901"}}, MaxString: 10},
		{Text: Text{"number is not a string", `[12345678901]`, Refusal{}}, MaxString: 10},
		{Text: Text{"string below one is the default", long(10), Refusal{}}, MaxString: -1},
	}
}
