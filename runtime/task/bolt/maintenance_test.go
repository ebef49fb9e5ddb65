package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// store opens a store and closes it when the test ends.
func store(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// put creates a completed task with a result of about size bytes.
func put(t *testing.T, s *bolt.Store, id string, ttl time.Duration, size int) task.Record {
	t.Helper()
	at := time.UnixMicro(1).UTC()
	r, err := s.Create(t.Context(), task.Record{
		ID: id, Owner: "o", Method: "tools/call", Status: mcp.TaskStatusCompleted, Created: at, Updated: at, TTL: ttl,
		Result: []byte(fmt.Sprintf(`{"text":"%0*d"}`, size, 0)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestCompactShrinksFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	s := store(t, path)
	stays := put(t, s, "stays", 0, 100)
	for i := range 100 {
		put(t, s, fmt.Sprint("goes ", i), time.Second, 20_000)
	}
	if _, _, err := s.Sweep(t.Context(), time.Now(), 1000); err != nil {
		t.Fatal(err)
	}
	before := fileSize(t, path)
	if err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	if after := fileSize(t, path); after > before/10 {
		t.Errorf("%d bytes became %d", before, after)
	}
	// Reads, writes, the order of tasks and the lock continue in the new file.
	if got, err := s.Get(t.Context(), "stays"); err != nil || cmp.Diff(stays, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	later := put(t, s, "later", 0, 100)
	if later.Seq != stays.Seq+101 {
		t.Errorf("seq went from %d to %d", stays.Seq, later.Seq)
	}
	if _, err := bolt.Open(path); !errors.Is(err, task.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Compact(); err != nil {
		t.Errorf("second Compact: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(); !errors.Is(err, task.ErrClosed) {
		t.Errorf("Compact of a closed store: %v", err)
	}
	s = store(t, path)
	for _, want := range []task.Record{stays, later} {
		if got, err := s.Get(t.Context(), want.ID); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// Journals are part of compacted files and of copies. The space of dropped journals is freed.
func TestJournalSurvivesCompactAndBackup(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "tasks"), filepath.Join(dir, "copy")
	s := store(t, path)
	at := time.UnixMicro(1).UTC()
	create := func(id string, ttl time.Duration, n int) task.Record {
		r, err := s.Create(t.Context(), task.Record{
			ID: id, Owner: "o", Status: mcp.TaskStatusWorking, Created: at, Updated: at, TTL: ttl, Params: []byte(`{"name":"n"}`),
			Durable: &task.Durable{Recorded: n, Entries: entries(0, n)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	stays := create("stays", 0, 50)
	for i := range 20 {
		create(fmt.Sprint("goes ", i), time.Second, 500)
	}
	if _, _, err := s.Sweep(t.Context(), time.Now(), 1000); err != nil {
		t.Fatal(err)
	}
	before := fileSize(t, path)
	if err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	if after := fileSize(t, path); after > before/10 {
		t.Errorf("%d bytes became %d", before, after)
	}
	stays.Durable = &task.Durable{Recorded: 51, Entries: entries(50, 51)}
	stays, err := s.Update(t.Context(), stays)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(copied); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*bolt.Store{s, store(t, copied)} {
		if got, err := s.Get(t.Context(), "stays"); err != nil || cmp.Diff(stays, got) != "" {
			t.Errorf("got %+v, %v", got, err)
		}
		if got, err := s.Journal(t.Context(), "stays"); err != nil || cmp.Diff(entries(0, 51), got) != "" {
			t.Errorf("journal of %d entries, %v", len(got), err)
		}
	}
}

// A file without journals has the buckets of earlier versions, so that these can open it, and the
// store can open theirs.
func TestFileWithoutJournalsIsThatOfEarlierVersions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	s := store(t, path)
	put(t, s, "a", 0, 100)
	s.Close()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var names []string
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error { names = append(names, string(name)); return nil })
	})
	if diff := cmp.Diff([]string{"expiry", "ids", "owners", "tasks"}, names); err != nil || diff != "" {
		t.Errorf("%v, buckets (-want +got):\n%s", err, diff)
	}
}

func TestOpenRemovesFileOfInterruptedCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	store(t, path).Close()
	leftover := path + ".compact"
	if err := os.WriteFile(leftover, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, path)
	if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s was not removed: %v", leftover, err)
	}
}

func TestBackupReplacesFileOfInterruptedBackup(t *testing.T) {
	dir := t.TempDir()
	s := store(t, filepath.Join(dir, "tasks"))
	copied := filepath.Join(dir, "copy")
	if err := os.WriteFile(copied+".partial", []byte("the beginning of a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(copied); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Errorf("files in the directory: %v", files)
	}
}

func TestBackupCanBeOpened(t *testing.T) {
	dir := t.TempDir()
	path, copied := filepath.Join(dir, "tasks"), filepath.Join(dir, "copy")
	s := store(t, path)
	want := put(t, s, "a", 0, 100)
	for range 2 { // the second replaces the first
		if err := s.Backup(copied); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Compact(); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(copied); err != nil {
		t.Errorf("from a compacted file: %v", err)
	}
	put(t, s, "later", 0, 100)
	link := filepath.Join(dir, "link")
	if err := os.Link(path, link); err == nil {
		if err := s.Backup(link); err == nil || !strings.Contains(err.Error(), "own file") {
			t.Errorf("backup to the store's own file: %v", err)
		}
	}
	if err := s.Backup(filepath.Join(dir, "no", "such", "folder")); err == nil {
		t.Error("backup to a missing directory succeeded")
	}
	b := store(t, copied)
	if got, err := b.Get(t.Context(), "a"); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := b.Get(t.Context(), "later"); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("task created after the backup: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || strings.HasSuffix(e.Name(), ".compact") {
			t.Errorf("temporary file left: %s", e.Name())
		}
	}
}

// No write is lost while the file is compacted and copied, and it stays locked.
func TestMaintenanceWhileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "tasks")
		s := store(t, path)
		const writers, tasks = 4, 40
		busy, done := context.WithCancel(t.Context())
		var group, maintenance sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				for n := range tasks {
					r := put(t, s, fmt.Sprintf("%d-%d", i, n), 0, 500)
					r.StatusMessage = "updated"
					if _, err := s.Update(t.Context(), r); err != nil {
						t.Error(err)
					}
					if got, err := s.Get(t.Context(), r.ID); err != nil || got.Revision != 2 {
						t.Errorf("read revision %d, %v", got.Revision, err)
					}
				}
			})
		}
		for name, f := range map[string]func() error{
			"compact": s.Compact,
			"backup":  func() error { return s.Backup(filepath.Join(dir, "copy")) },
			"open": func() error {
				if other, err := bolt.Open(path); !errors.Is(err, task.ErrLocked) {
					if err == nil {
						other.Close()
					}
					return fmt.Errorf("opened twice: %w", err)
				}
				return nil
			},
		} {
			maintenance.Go(func() {
				for first := true; first || busy.Err() == nil; first = false {
					if err := f(); err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		group.Wait()
		done()
		maintenance.Wait()
		list, err := s.List(t.Context(), "o", 0, 1000)
		if err != nil || len(list) != writers*tasks {
			t.Errorf("%d tasks, %v", len(list), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		store(t, filepath.Join(dir, "copy"))
		s = store(t, path)
		if list, err := s.List(t.Context(), "o", 0, 1000); err != nil || len(list) != writers*tasks {
			t.Errorf("%d tasks after a reopen, %v", len(list), err)
		}
	})
}

func TestOneManagerAtATime(t *testing.T) {
	s := store(t, filepath.Join(t.TempDir(), "tasks"))
	m, err := task.New(t.Context(), task.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := task.New(t.Context(), task.Options{Store: s}); !errors.Is(err, task.ErrInUse) {
		t.Errorf("a second Manager: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err = task.New(t.Context(), task.Options{Store: s})
	if err != nil {
		t.Fatalf("after the first has closed: %v", err)
	}
	m.Close(t.Context())
}

// An error that is not due to damage is not reported as ErrCorrupt.
func TestOpenOfDirectoryIsNotCorrupt(t *testing.T) {
	dir := t.TempDir()
	if _, err := bolt.Open(dir); err == nil || errors.Is(err, task.ErrCorrupt) {
		t.Errorf("open of a directory: %v", err)
	}
}

func TestMaintenanceSurvivesChangeOfWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	s, err := bolt.Open("tasks.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Chdir(t.TempDir())
	if err := s.Compact(); err != nil && runtime.GOOS != "windows" {
		t.Error(err)
	}
	if err := s.Backup("copy.db"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("copy.db"); err != nil {
		t.Error(err)
	}
}
