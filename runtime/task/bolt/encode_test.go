package bolt

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Decoding arbitrary bytes fails without a panic, or returns a record that survives a round trip.
func FuzzDecode(f *testing.F) {
	at := time.UnixMicro(1).UTC()
	r := task.Record{
		ID: "i", Owner: "o", Status: "working", Created: at, Updated: at, TTL: 1, Method: "m", Token: codec.StringScalar("t"),
		Params: json.RawMessage(`{}`), InputRequests: []task.InputRequest{{Number: 1, Method: "q", Params: json.RawMessage(`{}`)}},
	}
	key := seqKey(7)
	f.Add(encodeRecord(key, &r))
	f.Add(encodeRecord(key, &task.Record{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksums are right, so that decoding goes beyond them.
		head := append([]byte{format}, data...)
		block := func(content []byte) []byte {
			return appendBlock(nil, key, func(b []byte) []byte { return append(b, content...) })
		}
		decodeRecord(key, data)
		decodeRecord(key, append(block(head), block(data)...))
		got, err := decodeRecord(key, append(block(data), block(nil)...))
		if err != nil {
			return
		}
		again, err := decodeRecord(key, encodeRecord(key, &got))
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestDecodeRefusesRecordOfAnotherKey(t *testing.T) {
	value := encodeRecord(seqKey(1), &task.Record{ID: "a"})
	if _, err := decodeRecord(seqKey(1), value); err != nil {
		t.Error(err)
	}
	if _, err := decodeRecord(seqKey(2), value); err == nil {
		t.Error("the record of another key was accepted")
	}
}
