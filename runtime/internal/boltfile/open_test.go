package boltfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// create writes a database with nested buckets, branches, values of several pages and free pages.
func create(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "db")
	db, err := Open(path, 0o600, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, f := range []func(b *bbolt.Bucket) error{
		func(b *bbolt.Bucket) error {
			for n := range 200 {
				if err := b.Put(fmt.Appendf(nil, "key %03d", n), bytes.Repeat([]byte{'x'}, n)); err != nil {
					return err
				}
			}
			return b.Put([]byte("large"), make([]byte, 10_000))
		},
		func(b *bbolt.Bucket) error {
			for n := range 100 {
				if err := b.Delete(fmt.Appendf(nil, "key %03d", 2*n)); err != nil {
					return err
				}
			}
			_, err := b.CreateBucket([]byte("inline"))
			return err
		},
	} {
		err := db.Update(func(tx *bbolt.Tx) error {
			outer, err := tx.CreateBucketIfNotExists([]byte("outer"))
			if err != nil {
				return err
			}
			inner, err := outer.CreateBucketIfNotExists([]byte("inner"))
			if err != nil {
				return err
			}
			return f(inner)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A database with damaged pages is opened or refused. Without the check of its pages, some of these
// faults would end the process.
func TestOpenOutlivesDamage(t *testing.T) {
	path := create(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	step := 5
	if testing.Short() {
		step = 31
	}
	opened, refused := 0, 0
	try := func(damaged []byte) {
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := Open(path, 0o600, time.Second)
		if err != nil {
			refused++
			return
		}
		opened++
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	for page := 2 * size; page < len(whole); page += size {
		for at := 0; at < 96; at += step {
			damaged := bytes.Clone(whole)
			damaged[page+at] ^= 1 << (at * 5 % 8)
			try(damaged)
			damaged[page+at] = ^whole[page+at]
			try(damaged)
		}
		try(whole[:page])
	}
	if opened == 0 || refused == 0 {
		t.Errorf("%d damaged files were opened and %d refused", opened, refused)
	}
	t.Logf("%d damaged files were opened and %d refused", opened, refused)
}

// A cycle of pages would overflow the stack of bbolt's goroutine.
func TestOpenRefusesCycle(t *testing.T) {
	path := create(t)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size, cycles := os.Getpagesize(), 0
	for page := 2 * size; page < len(whole); page += size {
		if whole[page+8] != kindBranch {
			continue
		}
		copy(whole[page+pageHead+8:page+pageHead+16], whole[page:page+8]) // its first element refers to itself
		cycles++
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, 0o600, time.Second); err == nil || cycles == 0 {
		t.Errorf("a file with %d cycles was opened", cycles)
	}
}
