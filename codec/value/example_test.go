package value_test

import (
	"encoding/json"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

func Example() {
	type arguments struct {
		City  string `json:"city"`
		Count int    `json:"count"`
	}
	args := arguments{Count: 10} // the default
	err := codec.Unmarshal([]byte(`{"city": "Oslo", "City": "Rome"}`), value.Of(&args))
	fmt.Println(args.City, args.Count, err)

	err = codec.Unmarshal([]byte(`{"city": "Oslo", "count": "5"}`), value.Of(&args))
	fmt.Println(err)

	text, err := codec.Marshal(value.Of(map[string]any{"degrees": []float64{4, 5.5}, "city": args.City}))
	fmt.Println(string(text), err)
	// Output:
	// Oslo 10 <nil>
	// json: /count: want integer, got string (line 1, column 27, offset 26)
	// {"city":"Oslo","degrees":[4,5.5]} <nil>
}

// A tool decodes its arguments, a raw value in a decoded message.
func ExampleDecode() {
	arguments := json.RawMessage(`{"city": "Oslo", "days": 3.0}`)
	var in struct {
		City string `json:"city"`
		Days int    `json:"days"`
	}
	err := value.Decode(arguments, &in)
	fmt.Println(in, err)
	// Output:
	// {Oslo 3} <nil>
}
