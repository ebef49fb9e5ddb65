package jsonrpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestParseBatch(t *testing.T) {
	const text = "  [ {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},\n\n 7 , {\"jsonrpc\":\"2.0\",\n \"id\":\"x\",\n\"method\":null},\n[],{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}} ]\n"
	items, err := ParseBatch([]byte(text))
	if err != nil || len(items) != 5 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	for i, want := range map[int]refusal{
		1: {jsonfault.NotObject, 45, "/1", invalidRequest, 0, ID{}},
		2: {jsonfault.Method, 87, "/2/method", invalidRequest, KindRequest, codec.StringScalar("x")},
		3: {jsonfault.Batch, 94, "/3", invalidRequest, 0, ID{}},
	} {
		want.check(t, text, items[i].Message, items[i].Err)
	}
	want := []Message{NewRequest(one, "a", nil), NewNotification("n", []byte(`{}`))}
	if diff := cmp.Diff(want, []Message{items[0].Message, items[4].Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	out, err := AppendBatch([]byte("x"), want)
	if string(out) != `x[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"n","params":{}}]` || err != nil {
		t.Errorf("wrote %s, %v", out, err)
	}
}

func TestParseReceivedBatchToleratesFaultsOfPeers(t *testing.T) {
	items, err := ParseReceivedBatch([]byte("\uFEFF" + `[{"jsonrpc":"2.0","id":1,"method":"m","params":null},{"jsonrpc":"2.0","id":2},7]`))
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	if m := items[0].Message; items[0].Err != nil || m.Kind != KindRequest || m.Params != nil {
		t.Errorf("null params: %+v, %v", m, items[0].Err)
	}
	if items[1].Message.Kind != KindResponse || !errors.Is(items[1].Err, jsonfault.Neither) {
		t.Errorf("only an id: %+v, %v", items[1].Message, items[1].Err)
	}
	if !errors.Is(items[2].Err, jsonfault.NotObject) {
		t.Errorf("a number: %v", items[2].Err)
	}
	long := `[{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":["` + strings.Repeat(`","`, wire.DefaultSize/3) + `"]}}]`
	if items, err := ParseReceivedBatch([]byte(long), codec.NoCopy()); err != nil || items[0].Err != nil {
		t.Errorf("long batch: %v, %v", items, err)
	}
}

func TestParseHostileBatches(t *testing.T) {
	for _, c := range hostile.Batches() {
		t.Run(c.Name, func(t *testing.T) {
			items, err := ParseBatch([]byte(c.Text))
			if c.Rule != hostile.Taken {
				refusalOf(t, c.Refusal, Message{}).check(t, c.Text, Message{}, err)
				if items != nil {
					t.Error("a refused batch has messages")
				}
				return
			}
			if err != nil || len(items) != len(c.Items) {
				t.Fatalf("%d items, %v", len(items), err)
			}
			for i, item := range items {
				if want := c.Items[i]; want.Rule != hostile.Taken {
					refusalOf(t, want, item.Message).check(t, c.Text, item.Message, item.Err)
				} else if item.Err != nil {
					t.Errorf("item %d: %v", i, item.Err)
				}
			}
		})
	}
}

func TestAppendBatchRejectsInvalidBatch(t *testing.T) {
	if out, err := AppendBatch([]byte("x"), nil); string(out) != "x" || !errors.Is(err, jsonfault.EmptyBatch) {
		t.Errorf("wrote %s, %v", out, err)
	}
	if out, err := AppendBatch(nil, []Message{NewNotification("n", nil), {}}); out != nil || !errors.Is(err, jsonfault.Neither) {
		t.Errorf("wrote %s, %v", out, err)
	} else if e, ok := errors.AsType[*codec.Error](err); !ok || e.Pointer != "/1" {
		t.Errorf("at %v", err)
	}
}

func TestIsBatch(t *testing.T) {
	for text, want := range map[string]bool{`[]`: true, " \n\t[": true, `{}`: false, ``: false, ` `: false, `"["`: false, "\uFEFF[]": false} {
		if got := IsBatch([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
