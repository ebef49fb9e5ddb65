package value_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// BenchmarkFloat32 decodes numbers into float32 types of several shapes, beside the same shapes of
// float64.
func BenchmarkFloat32(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var list, points, members []string
	for i := range 1536 {
		list = append(list, fmt.Sprintf("%.8f", random.Float64()))
		points = append(points, fmt.Sprintf(`{"x":%.8f,"y":%.8f}`, random.Float64(), random.Float64()))
		members = append(members, fmt.Sprintf(`"k%d":%.8f`, i, random.Float64()))
	}
	array := "[" + strings.Join(list, ",") + "]"
	type list32 []float32
	type point32 struct {
		X float32 `json:"x"`
		Y float32 `json:"y"`
	}
	type point64 struct {
		X float64 `json:"x"`
		Y float64 `json:"y"`
	}
	benchDecode[[]float32](b, "slice/32", array)
	benchDecode[[]float64](b, "slice/64", array)
	benchDecode[list32](b, "named slice/32", array)
	benchDecode[[1536]float32](b, "array/32", array)
	benchDecode[[1536]float64](b, "array/64", array)
	benchDecode[[]point32](b, "points/32", "["+strings.Join(points, ",")+"]")
	benchDecode[[]point64](b, "points/64", "["+strings.Join(points, ",")+"]")
	benchDecode[map[string]float32](b, "map/32", "{"+strings.Join(members, ",")+"}")
	benchDecode[map[string]float64](b, "map/64", "{"+strings.Join(members, ",")+"}")
}

func benchDecode[T any](b *testing.B, name, text string) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			var v T
			if err := codec.Unmarshal([]byte(text), value.Of(&v)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
