package jetstream_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// storedMessage is a message in a file of testdata, such as records.json.gz. The file is the JSON of
// an array of them, in the order of the stream FORMAT-0.
type storedMessage struct {
	Subject string
	Data    []byte
}

// unzip returns the content of a compressed file.
func unzip(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A store reads the records of earlier versions, and changes and drops them. The records are those
// of fixtures of package statetest, which says what the versions had.
func TestRecordsOfEarlierFormats(t *testing.T) {
	for name, records := range map[string]int{"records": 12, "signals": 6} {
		t.Run(name, func(t *testing.T) { testRecords(t, name, records) })
	}
}

func testRecords(t *testing.T, name string, records int) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "records.db")
	if err := os.WriteFile(file, unzip(t, "../../../internal/statetest/testdata/records/"+name+".db.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	from, err := bolt.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	o := overMemory
	o.Name = "FORMAT"
	s := open(t, js, o)
	var messages []storedMessage
	if err := json.Unmarshal(unzip(t, "testdata/"+name+".json.gz"), &messages); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := js.Publish(t.Context(), m.Subject, m.Data); err != nil {
			t.Fatal(err)
		}
	}
	check := func(s *jetstream.Store, want task.Record, entries []task.Entry) task.Record {
		t.Helper()
		got, err := s.Get(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
		want.Revision, want.Seq = got.Revision, got.Seq
		if diff := cmp.Diff(want.Brief(), got.Brief()); diff != "" || string(want.Params) != string(got.Params) || !cmp.Equal(want.InputRequests, got.InputRequests) {
			t.Errorf("%s: params of %d and %d bytes (-want +got):\n%s", want.ID, len(want.Params), len(got.Params), diff)
		}
		if stored, err := s.Journal(t.Context(), want.ID); err != nil || len(stored) != len(entries) || len(entries) > 0 && !cmp.Equal(entries, stored) {
			t.Errorf("%s: %d entries, want %d, %v", want.ID, len(stored), len(entries), err)
		}
		return got
	}
	count := 0
	for brief, err := range from.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		count++
		want, err := from.Get(t.Context(), brief.ID)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := from.Journal(t.Context(), brief.ID)
		if err != nil {
			t.Fatal(err)
		}
		r := check(s, want, entries)
		want.StatusMessage, r.StatusMessage = "changed", "changed"
		update(t, s, r)
		if want.Durable != nil {
			d := *want.Durable
			d.Recorded++
			want.Durable = &d
			d.Entries = []task.Entry{{Kind: 2, Key: "more", Occurrence: 1, Position: 9}}
			entries = append(slices.Clip(entries), d.Entries...)
			r = check(s, r, entries[:len(entries)-1])
			r.Durable = &d
			update(t, s, r)
			want.Durable = &d
		}
		r = check(open(t, js, o), want, entries)
		r.Status, r.Params, r.InputRequests, r.Durable = mcp.TaskStatusCompleted, nil, nil, nil
		if r = update(t, s, r); r.Params != nil {
			t.Errorf("%s keeps its params", r.ID)
		}
	}
	if count != records {
		t.Errorf("%d records, want %d", count, records)
	}
	if n := parts(t, c, s); n != 0 {
		t.Errorf("%d parts remain", n)
	}
}

// Large params are sent to the servers when a task is created, and by no change of it: not by those
// of a process that has not created it either.
func TestChangesDoNotWriteParams(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, overMemory)
	sent := func() int64 {
		t.Helper()
		v, err := c.Server(0).Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		return v.InBytes
	}
	r := record("a")
	r.Params = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	r.Durable = &task.Durable{Version: "v"}
	before := sent()
	r = create(t, s, r)
	if n := sent() - before; n < 1<<20 {
		t.Fatalf("the creation has sent %d bytes", n)
	}
	const changes = 30
	before = sent()
	for n := range changes {
		switch n % 3 {
		case 0:
			r.Durable = &task.Durable{Version: "v", Recorded: n/3 + 1, Entries: []task.Entry{{Kind: 2, Key: fmt.Sprint(n), Occurrence: 1, Position: n + 1}}}
		case 1:
			r.InputRequests = []task.InputRequest{{Number: uint64(n), Method: mcp.MethodRootsList}}
		case 2:
			r.Progress = new(float64(n))
		}
		r = update(t, s, r)
		if n == changes/2 {
			s = open(t, js, same(s))
		}
	}
	if n := (sent() - before) / changes; n > 4<<10 {
		t.Errorf("a change has sent %d bytes", n)
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || string(got.Params) != string(r.Params) {
		t.Errorf("%d bytes of params, %v", len(got.Params), err)
	}
	r.Status, r.Params, r.InputRequests, r.Durable = mcp.TaskStatusCompleted, nil, nil, nil
	update(t, s, r)
	if n := parts(t, c, s); n != 0 {
		t.Errorf("%d parts remain", n)
	}
}
