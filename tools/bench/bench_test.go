package main

import (
	"encoding/json"
	"testing"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// Benchmark measures all combinations, one after another: names are OPERATION/MESSAGE/CONTESTANT.
// In the command codec the contestants take turns, which is fairer on a machine with other load.
func Benchmark(b *testing.B) {
	for _, o := range operations() {
		b.Run(o.name, func(b *testing.B) {
			for _, m := range messages.All() {
				b.Run(m.Name, func(b *testing.B) {
					for _, c := range contestants() {
						e, err := c.enter(m)
						if err != nil {
							b.Fatalf("%s: %v", c.name, err)
						}
						if run := o.of(e); run != nil {
							b.Run(c.name, func(b *testing.B) { benchmark(b, m, run) })
						}
					}
				})
			}
		})
	}
}

// BenchmarkValues makes the measurements of the command values.
func BenchmarkValues(b *testing.B) {
	for _, c := range valueCases() {
		for _, e := range valueEngines() {
			b.Run("decode/"+c.name+"/"+e.name, func(b *testing.B) {
				benchmark(b, messages.Message{Data: c.text}, func() error { return e.read(c.text, c.target()) })
			})
			v := c.target()
			if err := json.Unmarshal(c.text, v); err != nil {
				b.Fatal(err)
			}
			if e.encode != nil {
				b.Run("encode/"+c.name+"/"+e.name, func(b *testing.B) {
					benchmark(b, messages.Message{Data: c.text}, func() error {
						_, err := e.encode(v)
						return err
					})
				})
			}
		}
	}
}

func benchmark(b *testing.B, m messages.Message, run func() error) {
	b.SetBytes(int64(len(m.Data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
}
