package taskcode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Decoding arbitrary bytes fails without a panic, or returns a record that survives a round trip.
func FuzzDecode(f *testing.F) {
	at := time.UnixMicro(1).UTC()
	r := task.Record{
		ID: "i", Owner: "o", Status: "working", Created: at, Updated: at, TTL: 1, Method: "m", Token: codec.StringScalar("t"),
		Claim: task.Claim{Member: "a", Epoch: 2}, Trace: "00-1-2-00",
		Params: json.RawMessage(`{}`), InputRequests: []task.InputRequest{{Number: 1, Method: "q", Params: json.RawMessage(`{}`)}},
	}
	key := seqKey(7)
	encode := func(r *task.Record) (value, payload, params []byte) {
		if Recorded(r.Durable) == 0 {
			return EncodeRecord(key, r), nil, EncodeParams(key, r.Params)
		}
		return AppendHead(nil, key, r), AppendBody(nil, key, r), EncodeParams(key, r.Params)
	}
	decode := func(value, payload, params []byte) (task.Record, error) {
		return DecodeRecord(key, value, func() []byte { return payload }, func() []byte { return params })
	}
	durable := r
	durable.Durable = &task.Durable{Version: "v", LastInput: 1, Parked: true, Wake: at, Recorded: 2, RecordedBytes: 3}
	unrecorded := durable
	unrecorded.Durable = &task.Durable{Version: "v"}
	labelled := durable
	labelled.Labels = []string{"gpu", "region=eu"}
	undoing := labelled
	undoing.Durable = &task.Durable{Version: "v", Recorded: 2, Undos: 1, Undo: taskrules.UndoExpired, UndoSince: at}
	apart := r
	apart.Params = bytes.Repeat([]byte("p"), maxBodyParams+1)
	recorded := undoing
	recorded.Params = apart.Params
	signalled, both := undoing, recorded
	signalled.Durable = &task.Durable{Version: "v", Awaits: []string{"a"}, Signals: []task.Signal{{ID: "i", Name: "n", Value: json.RawMessage(`1`)}}}
	both.Durable = signalled.Durable
	for _, r := range []*task.Record{&r, &durable, &unrecorded, &labelled, &undoing, &apart, &recorded, &signalled, &both, {}} {
		value, payload, params := encode(r)
		f.Add(value)
		f.Add(payload)
		if got, err := decode(value, payload, params); err != nil || !cmp.Equal(*r, got, cmpopts.IgnoreFields(task.Record{}, "Seq")) {
			f.Errorf("decoded %+v, %v", got, err)
		}
		if !ParamsApart(r) {
			continue
		}
		if want := headFormat(r); value[blockHead] != want || want < formatParams {
			f.Errorf("format %d", value[blockHead])
		}
		for _, other := range [][]byte{nil, params[:len(params)-1], EncodeParams(key, r.Params[1:]), EncodeParams(seqKey(8), r.Params)} {
			if _, err := decode(value, payload, other); err == nil {
				f.Error("decoded with damaged params")
			}
		}
	}
	entry := task.Entry{Kind: 1, Key: "k", Occurrence: 2, Result: json.RawMessage(`{}`), Failed: true}
	f.Add(EncodeEntry(key, &entry))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksums are right, so that decoding goes beyond them.
		head := append([]byte{formatPlain}, data...)
		block := func(content []byte) []byte {
			return appendBlock(nil, key, func(b []byte) []byte { return append(b, content...) })
		}
		decode(data, data, data)
		decode(append(block(head), block(data)...), nil, nil)
		decode(append(block(append([]byte{formatLabels}, data...)), block(data)...), nil, nil)
		decode(block(head), block(data), block(data))
		if e, err := DecodeEntry(key, block(data)); err == nil {
			if again, err := DecodeEntry(key, EncodeEntry(key, &e)); err != nil || !cmp.Equal(e, again) {
				t.Fatalf("entry %+v became %+v, %v", e, again, err)
			}
		}
		got, err := decode(append(block(data), block(nil)...), nil, nil)
		if err != nil {
			got, err = decode(block(data), block(data), block(data))
		}
		if err != nil {
			return
		}
		again, err := decode(encode(&got))
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestDecodeRefusesRecordOfAnotherKey(t *testing.T) {
	value := EncodeRecord(seqKey(1), &task.Record{ID: "a"})
	if _, err := DecodeRecord(seqKey(1), value, nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := DecodeRecord(seqKey(2), value, nil, nil); err == nil {
		t.Error("the record of another key was accepted")
	}
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// A record without labels has the encoding that earlier versions of the package read.
func TestLabelsAloneChangeFormat(t *testing.T) {
	r := task.Record{ID: "a"}
	plain := AppendHead(nil, seqKey(1), &r)
	r.Labels = []string{"gpu"}
	labelled := AppendHead(nil, seqKey(1), &r)
	if plain[blockHead] != formatPlain || labelled[blockHead] != formatLabels {
		t.Errorf("formats %d and %d", plain[blockHead], labelled[blockHead])
	}
}
