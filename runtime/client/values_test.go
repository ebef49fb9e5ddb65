package client_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
)

func TestAccept(t *testing.T) {
	type stay struct {
		Nights int      `json:"nights"`
		Price  float32  `json:"price"`
		Quiet  bool     `json:"quiet"`
		Name   string   `json:"name"`
		Extras []string `json:"extras"`
		Note   *string  `json:"note,omitempty"`
	}
	for _, tt := range []struct {
		name   string
		values any
		want   string // the response, or a part of the error
	}{
		{"struct", stay{3, 1.5, true, "Ada", []string{"sauna"}, nil}, `{"action":"accept","content":{"extras":["sauna"],"name":"Ada","nights":3,"price":1.5,"quiet":true}}`},
		{"map", map[string]any{"nights": uint8(3)}, `{"action":"accept","content":{"nights":3}}`},
		{"empty list", map[string][]string{"extras": nil}, `{"action":"accept","content":{"extras":[]}}`},
		{"no fields", struct{}{}, `{"action":"accept","content":{}}`},
		{"nothing", nil, `{"action":"accept"}`},
		{"result of Parse", map[string]form.Value{"nights": &mcp.ElicitResultContentValueScalar{Value: codec.IntScalar(3)}}, `{"action":"accept","content":{"nights":3}}`},
		{"list", []int{3}, "[]int is not a JSON object"},
		{"object in a field", map[string]any{"nights": map[string]int{"n": 3}}, `field "nights"`},
		{"list of numbers", map[string]any{"nights": []int{3}}, `nights`},
		{"channel", map[string]any{"nights": make(chan int)}, "values of a form"},
	} {
		answer, err := client.Accept(tt.values)
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: the error is %v, want %s", tt.name, err, tt.want)
			}
			continue
		}
		text, err := codec.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, string(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
