package rerun_test

import (
	"encoding/json"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

type list struct {
	Value any
	Next  *list
}

type withError struct{ Err error }

type withIgnored struct {
	F     func() `json:"-"`
	_     chan int
	Names []string
}

func TestTypesOfResults(t *testing.T) {
	for name, err := range map[string]error{
		"struct": rerun.Recordable[list](), "any": rerun.Recordable[any](), "time": rerun.Recordable[time.Time](),
		"raw": rerun.Recordable[json.RawMessage](), "map": rerun.Recordable[map[int][]byte](), "methods": rerun.Recordable[*big.Int](),
		"keys with methods": rerun.Recordable[map[netip.Addr]bool](), "result": rerun.Recordable[*mcp.CallToolResult](), "ignored": rerun.Recordable[withIgnored](),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"func": rerun.Recordable[func()](), "chan": rerun.Recordable[[]chan int](), "complex": rerun.Recordable[complex128](), "error": rerun.Recordable[error](),
		"content": rerun.Recordable[[]mcp.ContentBlock](), "map": rerun.Recordable[map[bool]string](), "field": rerun.Recordable[*withError](),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
