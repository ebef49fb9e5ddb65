package jetstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// listAll returns the tasks of an owner by their ids, in order.
func listAll(t *testing.T, s task.Store, owner string) (ids []string) {
	t.Helper()
	list, err := s.List(t.Context(), owner, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		ids = append(ids, r.ID)
	}
	return ids
}

// The tasks of a bolt file are copied, also after an interruption.
func TestImport(t *testing.T) {
	t.Parallel()
	from, err := bolt.Open(filepath.Join(t.TempDir(), "tasks"))
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for n := range 60 {
		r := record(fmt.Sprint("task-", n*37%60))
		r.Owner = fmt.Sprint("owner ", n%4)
		r.Created = r.Created.Add(-time.Hour)
		r.TTL = 24 * time.Hour
		r.Params = json.RawMessage(`{"n":` + fmt.Sprint(n) + `}`)
		if n%3 == 0 {
			r.Durable = &task.Durable{Version: "v", Recorded: n}
			for i := range n {
				r.Durable.Entries = append(r.Durable.Entries, task.Entry{Kind: 2, Key: fmt.Sprint(i), Occurrence: 1, Result: json.RawMessage(strings.Repeat("1", n*i))})
			}
		}
		r = create(t, from, r)
		if n%5 == 0 {
			r.StatusMessage = "changed"
			update(t, from, r)
		}
	}
	c := natstest.Run(t, 1)
	to := open(t, c.JetStream(t), overMemory)
	for _, id := range listAll(t, from, "owner 1")[:7] { // an import that was interrupted
		r, err := from.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if r.Durable != nil {
			d := *r.Durable
			if d.Entries, err = from.Journal(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			r.Durable = &d
		}
		create(t, to, r)
	}
	if n, err := jetstream.Import(t.Context(), to, from); n != 53 || err != nil {
		t.Errorf("imported %d, %v", n, err)
	}
	if n, err := jetstream.Import(t.Context(), to, from); n != 0 || err != nil {
		t.Errorf("imported again: %d, %v", n, err)
	}
	for n := range 4 {
		owner := fmt.Sprint("owner ", n)
		want := listAll(t, from, owner)
		if diff := cmp.Diff(want, listAll(t, to, owner)); diff != "" {
			t.Errorf("tasks of %s (-want +got):\n%s", owner, diff)
		}
		for _, id := range want {
			before, err1 := from.Get(t.Context(), id)
			after, err2 := to.Get(t.Context(), id)
			before.Seq, before.Revision = after.Seq, after.Revision
			if diff := cmp.Diff(before, after); err1 != nil || err2 != nil || diff != "" {
				t.Errorf("%s: %v, %v (-want +got):\n%s", id, err1, err2, diff)
			}
			want, err1 := from.Journal(t.Context(), id)
			got, err2 := to.Journal(t.Context(), id)
			if diff := cmp.Diff(want, got); err1 != nil || err2 != nil || diff != "" {
				t.Errorf("journal of %s: %v, %v (-want +got):\n%s", id, err1, err2, diff)
			}
		}
	}
	// Another task has the id of one to copy.
	other := open(t, c.JetStream(t), overMemory)
	create(t, other, record("task-0"))
	if _, err := jetstream.Import(t.Context(), other, from); !errors.Is(err, task.ErrExists) {
		t.Errorf("import of an existing id: %v", err)
	}
}

// The tasks of two files are copied to one store, although the servers of both have stored a key.
func TestImportKeepsKey(t *testing.T) {
	t.Parallel()
	to := memory.New()
	var first task.Record
	for n, id := range []string{"one", "two"} {
		from := memory.New()
		key := record("mcpwire.state-key")
		key.Owner, key.Status, key.Created = "\x00mcpwire.state-key", mcp.TaskStatusCompleted, key.Created.Add(time.Duration(n)*time.Second)
		key = create(t, from, key)
		if n == 0 {
			first = key
		}
		create(t, from, record(id))
		if got, err := jetstream.Import(t.Context(), to, from); got != 2-n || err != nil {
			t.Errorf("%s: imported %d, %v", id, got, err)
		}
	}
	if r, err := to.Get(t.Context(), first.ID); err != nil || !r.Created.Equal(first.Created) {
		t.Errorf("the key is of %v, %v", r.Created, err)
	}
}

func TestRemoveOrphans(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s := open(t, js, overMemory)
	r := record("a")
	r.Params = json.RawMessage(`"` + strings.Repeat("x", 300_000) + `"`)
	r.Durable = &task.Durable{Recorded: 1, Entries: []task.Entry{{Key: "k", Result: json.RawMessage(r.Params)}}}
	r = create(t, s, r)
	intact := parts(t, c, s)
	// A part of another generation, a part without a record, and an entry without a record.
	stream := s.Name() + ".0."
	var index string
	for _, subject := range []string{"p.a.0000000000000000.0", "p.b.0000000000000000.0"} {
		if _, err := js.Publish(t.Context(), stream+subject, []byte("orphan")); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := js.Stream(t.Context(), s.Name()+"-0-index"); err != nil {
		t.Fatal(err)
	} else if m, err := st.GetMsg(t.Context(), 1); err != nil {
		t.Fatal(err)
	} else {
		index = m.Subject
	}
	for _, id := range []string{"a", "b"} {
		if _, err := js.Publish(t.Context(), index, []byte(id)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.RemoveOrphans(t.Context()); n != 2 || err != nil {
		t.Errorf("removed %d messages, %v; the entries are young", n, err)
	}
	if n := parts(t, c, s); n != intact {
		t.Errorf("%d parts, want %d", n, intact)
	}
	if n, err := s.RemoveAllOrphans(t.Context()); err != nil {
		t.Errorf("removed %d messages, %v", n, err)
	}
	st, err := js.Stream(t.Context(), s.Name()+"-0-index")
	if err != nil || st.CachedInfo().State.Msgs != 1 {
		t.Errorf("entries remain: %v", err)
	}
	if got, err := s.Get(t.Context(), "a"); err != nil || !cmp.Equal(string(r.Params), string(got.Params)) {
		t.Errorf("read %v", err)
	}
	if entries, err := s.Journal(t.Context(), "a"); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}
