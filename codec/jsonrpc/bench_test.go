package jsonrpc

import (
	"testing"

	"github.com/mcpwire/mcpwire/codec"
)

var request = []byte(`{"jsonrpc":"2.0","id":17,"method":"tools/call","params":{"name":"search","arguments":{"query":"text to look for","limit":10,"filters":["a","b"]},"_meta":{"progressToken":"p-17"}}}`)

func BenchmarkParse(b *testing.B) {
	for name, opts := range map[string][]codec.Option{"copy": nil, "no copy": {codec.NoCopy()}} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(request)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(request, opts...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	m, err := Parse(request)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(request)))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		out, err := m.AppendJSON(buf[:0])
		if err != nil {
			b.Fatal(err)
		}
		buf = out
	}
}
