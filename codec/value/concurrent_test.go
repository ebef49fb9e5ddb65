package value_test

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// Many goroutines use new types at the same time. The engine analyses a type at its first use, and
// must do so without a data race. The types are made at run time, so that each round has new ones.
func TestConcurrentFirstUseOfTypes(t *testing.T) {
	for round := range 20 {
		inner := reflect.StructOf([]reflect.StructField{
			{Name: "A", Type: reflect.TypeFor[int](), Tag: reflect.StructTag(fmt.Sprintf(`json:"a%d"`, round))},
			{Name: "B", Type: reflect.TypeFor[*string](), Tag: `json:"b,omitempty"`},
		})
		typ := reflect.StructOf([]reflect.StructField{
			{Name: "List", Type: reflect.SliceOf(inner), Tag: `json:"list"`},
			{Name: "Map", Type: reflect.MapOf(reflect.TypeFor[string](), reflect.PointerTo(inner)), Tag: `json:"map"`},
			{Name: "Any", Type: reflect.TypeFor[any](), Tag: `json:"any"`},
		})
		text := fmt.Sprintf(`{"list":[{"a%[1]d":1,"b":"x"},{"a%[1]d":2}],"map":{"k":{"a%[1]d":3},"n":null},"any":[1.0]}`, round)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				v := reflect.New(typ).Interface()
				if err := codec.Unmarshal([]byte(text), value.Of(v)); err != nil {
					t.Error(err)
				}
				if out, err := codec.Marshal(value.Of(v)); err != nil || string(out) != text {
					t.Errorf("%s became %s, %v", text, out, err)
				}
			})
		}
		all.Wait()
	}
}
