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

// filled returns a closed file with some tasks, and the records that are in it.
func filled(t *testing.T) (path string, want map[string]task.Record) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tasks")
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]task.Record{}
	for i := range 60 {
		at := time.UnixMicro(int64(i)).UTC()
		r, err := s.Create(t.Context(), task.Record{
			ID: fmt.Sprintf("task-%d-%d", i, i*7919), Owner: fmt.Sprint("owner ", i%3), Method: "tools/call",
			Status: mcp.TaskStatusCompleted, Created: at, Updated: at, TTL: time.Hour,
			Result: []byte(fmt.Sprintf(`{"n":%d,"text":"%0*d"}`, i, i*37%900, i)),
		})
		if err == nil && i%4 == 0 {
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

// examine opens a file that may be damaged and reads all of it. Whatever it says about a task must
// be right; if it cannot say, it must say that the file is corrupt. It reports whether it did.
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
		t.Errorf("%d tasks of %d are listed, and nothing is reported", listed, len(want))
	}
	return reported
}

// A file that ends too early, at any page and in between, is reported.
func TestTornFile(t *testing.T) {
	path, want := filled(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if examine(t, path, want) {
		t.Fatal("the whole file is said to be corrupt")
	}
	used := len(whole) // a whole page that is free at the end may be missing without harm
	for size := 0; size < used; size += 2048 {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		examine(t, path, want)
		if size < 4*4096 && !corrupt(path) {
			t.Errorf("a file of %d bytes is said to be whole", size)
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

// Pages that were never written, or written with something else, are reported or do no harm; what
// is read is right or not read at all.
func TestDamagedFile(t *testing.T) {
	path, want := filled(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	reported := 0
	const rounds = 60
	for n := range rounds {
		damaged := append([]byte(nil), whole...)
		// Both meta pages carry a checksum; a damaged one of the two stands for the transaction
		// that was going on in a crash. So damage starts behind them.
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
		t.Error("nothing was reported")
	}
	t.Logf("%d of %d were reported", reported, rounds)
}

// What is no store at all is refused, and left as it was.
func TestOtherFiles(t *testing.T) {
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

// One at a time has a file open.
func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	open(t, path)
	if _, err := bolt.Open(path); !errors.Is(err, bolt.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
}
