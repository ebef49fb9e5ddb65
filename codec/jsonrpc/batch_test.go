package jsonrpc

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
)

func TestBatchIsParsedMessageByMessage(t *testing.T) {
	const text = "  [ {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a\"},\n\n 7 , {\"jsonrpc\":\"2.0\",\n \"id\":\"x\",\n\"method\":null},\n[],{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}} ]\n"
	items, err := ParseBatch([]byte(text))
	if err != nil || len(items) != 5 {
		t.Fatalf("%d items, %v", len(items), err)
	}
	for i, want := range map[int]refusal{
		1: {ErrObject, 45, "/1", invalidRequest, 0, ID{}},
		2: {ErrMethod, 87, "/2/method", invalidRequest, KindRequest, codec.StringScalar("x")},
		3: {ErrBatch, 94, "/3", invalidRequest, 0, ID{}},
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

func TestBatchThatIsNoneIsRefusedAsAWhole(t *testing.T) {
	const message = `{"jsonrpc":"2.0","method":"n"}`
	batch := func(n int) string { return "[" + strings.Repeat(message+",", n-1) + message + "]" }
	for _, c := range []struct {
		name, text string
		refusal
	}{
		{"empty", ` [ ]`, refusal{err: ErrEmptyBatch, offset: 1, code: invalidRequest}},
		{"no array", ` ` + message, refusal{err: ErrNoBatch, offset: 1, code: invalidRequest}},
		{"null", `null`, refusal{err: ErrNoBatch, code: invalidRequest}},
		{"nothing", ``, refusal{err: codec.ErrEOF, code: parseError}},
		{"malformed and no array", `{"a":}`, refusal{err: codec.ErrSyntax, offset: 5, pointer: "/a", code: parseError}},
		{"malformed", `[` + message + `,{"a":tru}]`, refusal{err: codec.ErrLiteral, offset: 37, pointer: "/1/a", code: parseError}},
		{"text that goes on", `[` + message + `]]`, refusal{err: codec.ErrTrailing, offset: 32, code: parseError}},
		{"empty and text that goes on", `[],`, refusal{err: codec.ErrTrailing, offset: 2, code: parseError}},
		{"one too many", batch(MaxBatch + 1), refusal{err: ErrBatchSize, offset: int64(1 + MaxBatch*(len(message)+1)), pointer: "/1000", code: invalidRequest}},
		{"too many and malformed", batch(MaxBatch+1) + "x", refusal{err: codec.ErrTrailing, offset: int64(1 + (MaxBatch+1)*(len(message)+1)), code: parseError}},
	} {
		t.Run(c.name, func(t *testing.T) {
			items, err := ParseBatch([]byte(c.text))
			c.check(t, c.text, Message{}, err)
			if items != nil {
				t.Error("there are messages all the same")
			}
		})
	}
	if items, err := ParseBatch([]byte(batch(MaxBatch))); err != nil || len(items) != MaxBatch {
		t.Errorf("as many as allowed: %d, %v", len(items), err)
	}
	if out, err := AppendBatch([]byte("x"), nil); string(out) != "x" || !errors.Is(err, ErrEmptyBatch) {
		t.Errorf("wrote %s, %v", out, err)
	}
	if out, err := AppendBatch(nil, []Message{NewNotification("n", nil), {}}); out != nil || !errors.Is(err, ErrNeither) {
		t.Errorf("wrote %s, %v", out, err)
	} else if e, ok := errors.AsType[*codec.Error](err); !ok || e.Pointer != "/1" {
		t.Errorf("at %v", err)
	}
}

func TestBatchIsToldByItsFirstByte(t *testing.T) {
	for text, want := range map[string]bool{`[]`: true, " \n\t[": true, `{}`: false, ``: false, ` `: false, `"["`: false, "\uFEFF[]": false} {
		if got := IsBatch([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
