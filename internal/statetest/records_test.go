package statetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// recordsAt is the time of the stored records.
var recordsAt = time.Date(2026, 11, 28, 10, 0, 0, 1000, time.UTC)

// storedRecords returns the records in the files of testdata/records, with their entries, in the
// order of their creation. The files cannot be written again: later formats need files of their own.
//
// The file records.db was written by a version that had undos, and that kept params of any size with
// the other payloads. The file signals.db was written by one that kept large params apart, and had
// signals.
var storedRecords = map[string]func() []task.Record{"records.db": undoRecords, "signals.db": signalRecords}

// signalRecords returns the records in signals.db.
func signalRecords() (list []task.Record) {
	for _, r := range undoRecords() {
		if r.Durable == nil || r.Durable.Recorded == 0 {
			continue
		}
		d := *r.Durable
		switch {
		case d.Parked:
			d.Awaits = []string{"paid", "refused"}
			fallthrough
		case d.Undo == 0:
			d.Signals = []task.Signal{{ID: "A", Name: "news", Value: json.RawMessage(`{"b":1e999,"a":"\u2028"}`)}, {ID: "B", Name: odd, Value: json.RawMessage(`null`)}}
		}
		r.Durable = &d
		list = append(list, r)
	}
	return list
}

// undoRecords returns the records in records.db.
func undoRecords() (list []task.Record) {
	entries := []task.Entry{
		{Kind: 2, Key: "charge", Occurrence: 1, Result: json.RawMessage(`{"id":7}`), Position: 1},
		{Kind: 5, Key: "refund", Occurrence: 1, Position: 2}, // registers an undo
		{Kind: 2, Key: "ship", Occurrence: 1, Result: json.RawMessage(`"no stock"`), Failed: true, Branch: "1.0", Position: 1},
	}
	for _, size := range []int{20, 200_000} {
		params := fmt.Appendf(nil, `{"name":"%0*d"}`, size, size)
		add := func(id string, change func(r *task.Record)) {
			r := task.Record{
				ID: fmt.Sprint(id, "-", size), Owner: "ann", Status: mcp.TaskStatusWorking, StatusMessage: id,
				Created: recordsAt, Updated: recordsAt.Add(time.Second), TTL: time.Hour, PollInterval: time.Second,
				Method: mcp.MethodToolsCall, Params: params, Token: codec.StringScalar("t"), Name: "n", Protocol: "2026-07-28", Bytes: 1000,
			}
			change(&r)
			list = append(list, r)
		}
		durable := func(r *task.Record, d task.Durable) {
			d.Version, d.Recorded, d.Entries = "v1", len(entries), entries
			r.Restartable, r.Durable = true, &d
		}
		add("plain", func(*task.Record) {})
		add("input", func(r *task.Record) {
			r.Status = mcp.TaskStatusInputRequired
			r.InputRequests = []task.InputRequest{
				{Number: 1, Method: mcp.MethodElicitationCreate, Params: json.RawMessage(`{"message":"?"}`), Result: json.RawMessage(`{"action":"accept"}`)},
				{Number: 2, Method: mcp.MethodElicitationCreate, Params: json.RawMessage(`{"message":"` + strings.Repeat("?", size/2) + `"}`)},
			}
		})
		add("new", func(r *task.Record) {
			r.Restartable, r.Phase, r.Durable = true, 1 /* new */, &task.Durable{Version: "v1"}
		})
		add("steps", func(r *task.Record) {
			durable(r, task.Durable{LastInput: 3, Parked: true, Wake: recordsAt.Add(time.Minute)})
			r.InputRequests = []task.InputRequest{{
				Number: 3, Method: mcp.MethodElicitationCreate, Params: json.RawMessage(`{}`),
				Key: "k", Occurrence: 1, Branch: "1.1", Position: 2, Deadline: recordsAt.Add(time.Minute),
			}}
		})
		add("registered", func(r *task.Record) { durable(r, task.Durable{Undos: 1}) })
		add("undoing", func(r *task.Record) {
			durable(r, task.Durable{Undos: 1, Undo: 2, UndoSince: recordsAt.Add(time.Second)})
			r.Reruns, r.Phase, r.Lost, r.Labels = 1, 3 /* trial */, []string{"m"}, []string{"gpu"}
		})
	}
	return list
}

// A store reads the records of earlier formats, and changes and drops them.
func TestRecordsOfEarlierFormats(t *testing.T) {
	for name, records := range storedRecords {
		t.Run(name, func(t *testing.T) { testRecords(t, name, records()) })
	}
}

func testRecords(t *testing.T, name string, want []task.Record) {
	file := unpack(t, "testdata/records", name)
	s := must(bolt.Open(file))
	read := func(r task.Record) task.Record {
		t.Helper()
		got, err := s.Get(t.Context(), r.ID)
		noError(t, err)
		if r.Durable != nil {
			got.Durable.Entries, err = s.Journal(t.Context(), r.ID)
			noError(t, err)
		}
		r.Seq, r.Revision = got.Seq, got.Revision
		// cmp compares long texts slowly.
		if !slices.Equal(r.Params, got.Params) {
			t.Errorf("%s: params of %d bytes, want %d", r.ID, len(got.Params), len(r.Params))
		}
		want, brief := r, got
		want.Params, brief.Params = nil, nil
		equal(t, r.ID, want, brief)
		return got
	}
	for i, r := range want {
		got := read(r)
		if got.Durable != nil {
			got.Durable.Entries = nil
		}
		want[i].StatusMessage, got.StatusMessage = "changed", "changed"
		must(s.Update(context.Background(), got))
		read(want[i])
		if r.Durable != nil {
			d := *want[i].Durable
			d.Recorded, d.Entries = d.Recorded+1, append(slices.Clip(d.Entries), task.Entry{Kind: 2, Key: "more", Occurrence: 1, Position: 9})
			want[i].Durable = &d
			got = must(s.Get(t.Context(), r.ID))
			added := d
			added.Entries = d.Entries[len(d.Entries)-1:]
			got.Durable = &added
			must(s.Update(context.Background(), got))
			read(want[i])
		}
	}
	noError(t, s.Close())
	s = must(bolt.Open(file)) // verifies the file
	defer s.Close()
	for _, r := range want {
		read(r)
	}
	for _, r := range want {
		got := must(s.Get(t.Context(), r.ID))
		got.Status, got.Params, got.Durable = mcp.TaskStatusCompleted, nil, nil // no undos retain it
		must(s.Update(t.Context(), got))
	}
	if list, _, err := s.Sweep(t.Context(), recordsAt.Add(2*time.Hour), 100); err != nil || len(list) != len(want) {
		t.Errorf("dropped %d tasks of %d, %v", len(list), len(want), err)
	}
	noError(t, s.Close())
	noError(t, must(bolt.Open(file)).Close())
}
