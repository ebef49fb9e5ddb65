package main

import "testing"

// Benchmark measures everything, one thing at a time: names are OPERATION/MESSAGE/CONTESTANT. The command codec has
// the contestants take turns instead, which is fairer on a machine that does other work, too.
func Benchmark(b *testing.B) {
	for _, o := range operations() {
		b.Run(o.name, func(b *testing.B) {
			for _, m := range messages() {
				b.Run(m.name, func(b *testing.B) {
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

func benchmark(b *testing.B, m message, run func() error) {
	b.SetBytes(int64(len(m.data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := run(); err != nil {
			b.Fatal(err)
		}
	}
}
