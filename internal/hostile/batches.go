package hostile

import "strings"

// Batch is an array of messages, or an invalid batch.
type Batch struct {
	Name, Text string
	Refusal
	Items []Refusal // the expected result for each element, if the batch is accepted
}

// MaxBatch is the maximum number of messages in a batch.
const MaxBatch = 1000

// Batches returns the batches.
func Batches() []Batch {
	const notification = `{"jsonrpc":"2.0","method":"n"}`
	many := func(n int) string { return "[" + strings.Repeat(notification+",", n-1) + notification + "]" }
	return []Batch{
		{"of one", `[` + message + `]`, Refusal{}, make([]Refusal, 1)},
		{"of every kind", ` [ ` + message + ` , ` + notification + `,{"jsonrpc":"2.0","id":1,"result":{}},` + "\n" + `{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"m"}}]` + "\n",
			Refusal{}, make([]Refusal, 4)},
		{"with the same id twice", `[` + message + `,` + message + `]`, Refusal{}, make([]Refusal, 2)},
		{"with elements that are not messages", `[` + message + `,7,[],null,"x",{},{"jsonrpc":"2.0","id":null,"method":"m"},` + notification + `]`, Refusal{},
			[]Refusal{{}, {NoObject, 39, "/1"}, {Batched, 41, "/2"}, {NoObject, 44, "/3"}, {NoObject, 49, "/4"}, {Version, 53, "/5"}, {ID, 78, "/6/id"}, {}}},
		{"with a batch inside", `[[` + message + `]]`, Refusal{}, []Refusal{{Batched, 1, "/0"}}},
		{"as many as allowed", many(MaxBatch), Refusal{}, make([]Refusal, MaxBatch)},

		{"empty", ` [ ]`, Refusal{EmptyBatch, 1, ""}, nil},
		{"not an array", ` ` + notification, Refusal{NoBatch, 1, ""}, nil},
		{"null", `null`, Refusal{NoBatch, 0, ""}, nil},
		{"nothing", ``, Refusal{EOF, 0, ""}, nil},
		{"malformed and not an array", `{"a":}`, Refusal{Syntax, 5, "/a"}, nil},
		{"malformed", `[` + notification + `,{"a":tru}]`, Refusal{Literal, 37, "/1/a"}, nil},
		{"comma before the end", `[` + notification + `,]`, Refusal{Syntax, 32, "/1"}, nil},
		{"no comma between", `[` + notification + ` ` + notification + `]`, Refusal{Syntax, 32, ""}, nil},
		{"not closed", `[` + notification, Refusal{EOF, 31, ""}, nil},
		{"message with a name twice", `[` + notification + `,{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}]`, Refusal{Duplicate, 56, "/1/id"}, nil},
		{"leading byte order mark", "\uFEFF[" + notification + "]", Refusal{BOM, 0, ""}, nil},
		{"trailing text", `[` + notification + `]]`, Refusal{Trailing, 32, ""}, nil},
		{"empty and trailing text", `[],`, Refusal{Trailing, 2, ""}, nil},
		{"one too many", many(MaxBatch + 1), Refusal{BatchSize, 1 + MaxBatch*(len(notification)+1), "/1000"}, nil},
		{"too many and malformed", many(MaxBatch+1) + "x", Refusal{Trailing, 1 + (MaxBatch+1)*(len(notification)+1), ""}, nil},
	}
}
