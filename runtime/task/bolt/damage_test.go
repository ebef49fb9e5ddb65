package bolt_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// createFile creates a store with some tasks and closes it. It returns the path and the records.
func createFile(t *testing.T) (path string, want map[string]task.Record) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tasks")
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]task.Record{}
	for i := range 60 {
		at := time.UnixMicro(int64(i)).UTC()
		r := task.Record{
			ID: fmt.Sprintf("task-%d-%d", i, i*7919), Owner: fmt.Sprint("owner ", i%3), Method: "tools/call",
			Status: mcp.TaskStatusCompleted, Created: at, Updated: at, TTL: time.Hour,
			Result: []byte(fmt.Sprintf(`{"n":%d,"text":"%0*d"}`, i, i*37%900, i)),
		}
		if i%3 == 0 {
			r.Durable = &task.Durable{Version: "v", Recorded: i, Entries: entries(0, i)}
		}
		r, err := s.Create(t.Context(), r)
		if err == nil && i%4 == 0 {
			if r.Durable != nil {
				r.Durable = &task.Durable{Version: "v", Recorded: i + 1, Entries: entries(i, i+1)}
			}
			r, err = s.Update(t.Context(), r)
		}
		if err != nil {
			t.Fatal(err)
		}
		want[r.ID] = r
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path, want
}

// entries returns the entries of a journal with the numbers from..to-1.
func entries(from, to int) (list []task.Entry) {
	for n := from; n < to; n++ {
		list = append(list, task.Entry{Kind: 2, Key: fmt.Sprint("step ", n), Occurrence: n, Result: []byte(fmt.Sprintf(`"%0*d"`, n*37%300, n))})
	}
	return list
}

// examine opens a file that may be damaged and reads all of it. The test fails unless each record
// is either right or reported as corrupt. It returns whether damage was reported.
func examine(t *testing.T, path string, want map[string]task.Record) (reported bool) {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		if !errors.Is(err, task.ErrCorrupt) {
			t.Errorf("open: %v", err)
		}
		return true
	}
	defer s.Close()
	for id, r := range want {
		got, err := s.Get(t.Context(), id)
		if errors.Is(err, task.ErrCorrupt) {
			reported = true
		} else if diff := cmp.Diff(r, got); err != nil || diff != "" {
			t.Errorf("%s: %v, (-want +got):\n%s", id, err, diff)
		}
		if r.Durable == nil {
			continue
		}
		journal, err := s.Journal(t.Context(), id)
		if errors.Is(err, task.ErrCorrupt) {
			reported = true
		} else if diff := cmp.Diff(entries(0, r.Durable.Recorded), journal); err != nil || diff != "" {
			t.Errorf("journal of %s: %v, (-want +got):\n%s", id, err, diff)
		}
	}
	listed := 0
	for i := range 3 {
		list, err := s.List(t.Context(), fmt.Sprint("owner ", i), 0, 1000)
		if errors.Is(err, task.ErrCorrupt) {
			return true
		} else if err != nil {
			t.Errorf("list: %v", err)
		}
		listed += len(list)
	}
	if listed != len(want) {
		t.Errorf("%d of %d tasks are listed, and no damage is reported", listed, len(want))
	}
	return reported
}

// A file is truncated at each page and in between.
func TestTruncatedFileIsReported(t *testing.T) {
	path, want := createFile(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if examine(t, path, want) {
		t.Fatal("the intact file is reported as corrupt")
	}
	step := 3 * 2048 // the file ends between pages and within them, in turn
	if testing.Short() {
		step = 29 * 2048
	}
	for size := 0; size < len(whole); size += step {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		examine(t, path, want) // reports nothing if only free pages at the end are missing
		if size < 4*4096 && !corrupt(path) {
			t.Errorf("a file of %d bytes is accepted", size)
		}
		if t.Failed() {
			t.Fatalf("cut to %d of %d bytes", size, len(whole))
		}
	}
}

func corrupt(path string) bool {
	s, err := bolt.Open(path)
	if err == nil {
		s.Close()
	}
	return errors.Is(err, task.ErrCorrupt)
}

// Pages are cleared, changed or overwritten with other pages. A read returns the right record or an
// error.
func TestDamagedFileIsReported(t *testing.T) {
	path, want := createFile(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	reported := 0
	rounds := 60
	if testing.Short() {
		rounds = 6
	}
	for n := range rounds {
		damaged := append([]byte(nil), whole...)
		// Damage starts after the two meta pages: bbolt takes a damaged meta page for a transaction
		// that a crash has interrupted, and uses the other one.
		const from = 2 * 4096
		page := from + 4096*random.IntN((len(whole)-from)/4096)
		switch n % 3 {
		case 0:
			clear(damaged[page : page+4096])
		case 1:
			damaged[from+random.IntN(len(whole)-from)] ^= 1 << random.IntN(8)
		case 2:
			other := from + 4096*random.IntN((len(whole)-from)/4096)
			copy(damaged[page:page+4096], whole[other:])
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if examine(t, path, want) {
			reported++
		}
		if t.Failed() {
			t.Fatalf("damage %d", n)
		}
	}
	if reported == 0 {
		t.Error("no damage was reported")
	}
	t.Logf("%d of %d were reported", reported, rounds)
}

// Open refuses files that are not stores and does not change them.
func TestOpenRefusesOtherFiles(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "text": "hello", "large": string(make([]byte, 1<<16)),
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if !corrupt(path) {
			t.Errorf("%s: not refused", name)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	if _, err := bolt.Open(filepath.Join(t.TempDir(), "no", "such", "folder")); err == nil || errors.Is(err, task.ErrCorrupt) {
		t.Errorf("no folder: %v", err)
	}
}

func TestOpenRefusesLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	open(t, path)
	if _, err := bolt.Open(path); !errors.Is(err, task.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
}
