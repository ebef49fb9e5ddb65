package jsonrpc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

func many(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(f(i))
	}
	return b.String()
}

func member(i int) string { return fmt.Sprintf(`"n%06d":%d`, i, i) }

func TestMessageWorkIsLinear(t *testing.T) {
	const start = `{"jsonrpc":"2.0","id":1,"method":"m",`
	for name, c := range map[string]struct {
		text func(n int) string
		fail bool
	}{
		"unknown members": {func(n int) string { return start + many(n, member) + `}` }, false},
		"unknown members, one null": {func(n int) string {
			return `{"id":null,` + many(n, member) + `,"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`
		}, false},
		"unknown members and params of a response": {func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"params":[],"result":{},` + many(n, member) + `}`
		}, false},
		"unknown members of an error": {func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"error":{"code":1e99,"message":"m",` + many(n, member) + `}}`
		}, false},
		"unknown member twice": {func(n int) string { return start + many(n, member) + `,` + member(0) + `}` }, true},
		"member n times":       {func(n int) string { return start + many(n, func(int) string { return `"method":"m"` }) + `}` }, true},
		"deep params": {func(n int) string {
			return start + `"params":{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}`
		}, false},
		"deep unknown members": {func(n int) string {
			return start + `"x":` + strings.Repeat(`{"y":`, n) + `1` + strings.Repeat("}", n) + `}`
		}, false},
		"deep and not closed": {func(n int) string { return start + `"params":` + strings.Repeat(`{"y":`, n) }, true},
		"id of many digits":   {func(n int) string { return `{"jsonrpc":"2.0","method":"m","id":` + strings.Repeat("7", 16*n) + `}` }, false},
		"id of many zeros":    {func(n int) string { return `{"jsonrpc":"2.0","method":"m","id":1.` + strings.Repeat("0", 16*n) + `}` }, false},
		"fractional id":       {func(n int) string { return `{"jsonrpc":"2.0","method":"m","id":1.` + strings.Repeat("0", 16*n) + `1}` }, true},
		"id of many escapes": {func(n int) string {
			return `{"jsonrpc":"2.0","method":"m","id":"` + strings.Repeat(`\u00e9`, 4*n) + `"}`
		}, false},
		"method of many escapes": {func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat(`\ud83d\ude00`, 4*n) + `"}`
		}, false},
		"version of many escapes": {func(n int) string { return `{"method":"m","id":1,"jsonrpc":"` + strings.Repeat(`\n`, 8*n) + `"}` }, true},
		"error code of many digits": {func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"error":{"message":"m","code":` + strings.Repeat("7", 16*n) + `}}`
		}, false},
		"error that is not an object": {func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"error":[` + many(n, func(int) string { return `{}` }) + `]}`
		}, true},
		"fault after many lines": {func(n int) string {
			return start + "\n" + many(n, func(i int) string { return member(i) + "\n" }) + `,"params":{"a":tru}}`
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				text := []byte(c.text(n))
				return func() {
					m, err := Parse(text, codec.MaxDepth(1<<30))
					if (err != nil) != c.fail {
						t.Fatal(err)
					}
					if err != nil {
						return
					}
					if _, err := m.AppendJSON(nil); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// The number of messages in a batch is limited, so the test makes the messages larger.
func TestBatchWorkIsLinear(t *testing.T) {
	for name, c := range map[string]struct {
		text func(n int) string
		fail bool
	}{
		"messages": {func(n int) string {
			return `[` + many(maxBatch, func(int) string {
				return `{"jsonrpc":"2.0","method":"m","params":{"a":"` + strings.Repeat("x", n/10) + `"}}`
			}) + `]`
		}, false},
		"faults at the end of every message": {func(n int) string {
			return `[` + many(maxBatch, func(int) string {
				return `{"jsonrpc":"2.0","x":"` + strings.Repeat("x", n/10) + `"}` + strings.Repeat("\n", n/10)
			}) + `]`
		}, false},
		"too many messages": {func(n int) string { return `[` + many(maxBatch+8*n, func(int) string { return `[]` }) + `]` }, true},
	} {
		t.Run(name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				text := []byte(c.text(n))
				return func() {
					items, err := ParseBatch(text)
					if (err != nil) != c.fail || err == nil && len(items) != maxBatch {
						t.Fatal(err)
					}
				}
			})
		})
	}
}
