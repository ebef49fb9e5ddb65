package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

var (
	secretKey = bytes.Repeat([]byte{1}, 32)
	token     = oauth.Key{Kind: "token", Issuer: "https://as", Resource: "https://server/mcp", Principal: "ann"}
)

// open opens a store in a file.
func open(t *testing.T, path string, key []byte) *store {
	t.Helper()
	s, err := Open(path, key)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*store)
}

func put(t *testing.T, s oauth.Store, k oauth.Key, value string) {
	t.Helper()
	if err := s.Put(t.Context(), k, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func TestStorePersistsValues(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": secretKey} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a", "b", "credentials.json")
			s := open(t, path, key)
			other := token
			other.Principal = "bob"
			put(t, s, token, "first")
			put(t, s, other, "of bob")
			put(t, s, token, "hunter2")
			again := open(t, path, key)
			for k, want := range map[oauth.Key]string{token: "hunter2", other: "of bob"} {
				if got, err := again.Get(t.Context(), k); err != nil || string(got) != want {
					t.Errorf("%v: %q, %v", k, got, err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if sealed := !bytes.Contains(text, []byte("aHVudGVyMg==")) && !bytes.Contains(text, []byte("https://as")); sealed != (key != nil) {
				t.Errorf("the file is %s", text)
			}
			for range 2 {
				if err := again.Delete(t.Context(), token); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Get(t.Context(), token); !errors.Is(err, oauth.ErrNotFound) {
				t.Errorf("after Delete: %v", err)
			}
			files, err := os.ReadDir(filepath.Dir(path))
			if err != nil || len(files) != 1 {
				t.Errorf("files %v, %v", files, err)
			}
		})
	}
}

func TestOpenNeedsTheKeyOfTheFile(t *testing.T) {
	dir := t.TempDir()
	plain, sealed := filepath.Join(dir, "plain"), filepath.Join(dir, "sealed")
	put(t, open(t, plain, nil), token, "hunter2")
	put(t, open(t, sealed, secretKey), token, "hunter2")
	for _, c := range []struct {
		path string
		key  []byte
		want string
	}{
		{sealed, nil, "is encrypted"},
		{sealed, bytes.Repeat([]byte{2}, 32), "cannot be decrypted"},
		{plain, secretKey, "is not encrypted"},
		{plain, secretKey[1:], "31 bytes"},
	} {
		if _, err := Open(c.path, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// Proves AUTH-30.
func TestFileIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	path := filepath.Join(t.TempDir(), "dir", "credentials.json")
	s := open(t, path, nil)
	put(t, s, token, "hunter2")
	for _, name := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("mode of %s: %v, %v", name, info.Mode(), err)
		}
	}
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(link, nil); err == nil {
		t.Error("a symbolic link is followed")
	}
	lock, target := path+".lock", filepath.Join(t.TempDir(), "target")
	if err := os.Symlink(target, lock); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), token, nil); err == nil {
		t.Error("a symbolic link is locked")
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("the target of a symbolic link is created")
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Dir(path), nil); err == nil {
		t.Error("a directory is opened")
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), token); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("with mode %o: %v", mode, err)
		}
		if err := s.Put(t.Context(), token, nil); err == nil {
			t.Errorf("with mode %o: the file is replaced", mode)
		}
	}
}

func TestDamagedFileIsNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials.json")
	s := open(t, path, nil)
	for _, text := range []string{"", "hunter2", `{"version":2}`, `{"version":1,"entries":"hunter2"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(t.Context(), token, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q has become %q, %v", text, got, err)
		}
	}
}

func TestConcurrentChangesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials.json")
	var group sync.WaitGroup
	for n := range 20 {
		s, k := open(t, path, nil), token
		k.Principal = fmt.Sprint(n)
		group.Go(func() {
			if err := s.Put(context.Background(), k, nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	entries, err := open(t, path, nil).read()
	if err != nil || len(entries) != 20 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

func TestLockExcludesGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credentials.json")
	synctest.Test(t, func(t *testing.T) {
		s := open(t, path, nil)
		unlock, err := s.Lock(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, token, "while locked")
		other := token
		other.Principal = "bob"
		unlockOther, err := s.Lock(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		defer unlockOther()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, token); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second lock: %v", err)
		}
		locked := make(chan struct{})
		go func() {
			unlock, err := open(t, path, nil).Lock(t.Context(), token)
			if err != nil {
				t.Error(err)
			} else {
				defer unlock()
			}
			close(locked)
		}()
		synctest.Wait()
		select {
		case <-locked:
			t.Error("two goroutines hold the lock")
		default:
		}
		unlock()
		unlock() // no effect
		<-locked
	})
}

// A file lock that this package does not track stands for the lock of another process.
func TestLockExcludesProcesses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.lock")
	f, ok, err := tryLock(name)
	if err != nil || !ok {
		t.Fatalf("got %v, %v", ok, err)
	}
	if _, ok, err := tryLock(name); err != nil || ok {
		if runtime.GOOS == "js" || runtime.GOOS == "plan9" || runtime.GOOS == "aix" || runtime.GOOS == "solaris" {
			t.Skip("no file locks")
		}
		t.Errorf("a locked file is locked again: %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := lock(ctx, name); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the lock of another process: %v", err)
		}
		time.AfterFunc(time.Second, func() { f.Close() })
		unlock, err := lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
		time.Sleep(time.Second)
	})
	if len(locks.byName) != 0 {
		t.Errorf("%d locks are left", len(locks.byName))
	}
}

// A process can open a lock file just before its holder removes it.
func TestRemovedLockFileIsNotLocked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.lock")
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if isCurrent(f, name) {
		t.Error("a removed file is a lock")
	}
}

// A writer was killed before it could rename its temporary file.
func TestTemporaryFilesOfKilledWritersAreRemoved(t *testing.T) {
	if !excludesProcesses {
		t.Skip("locks do not exclude other processes")
	}
	for name, change := range map[string]func(oauth.Store) error{
		"a change":                func(s oauth.Store) error { return s.Put(t.Context(), token, []byte("hunter3")) },
		"a logout":                func(s oauth.Store) error { return s.Delete(t.Context(), token) },
		"a logout without effect": func(s oauth.Store) error { return s.Delete(t.Context(), oauth.Key{Kind: "token"}) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "credentials.json")
		s := open(t, path, nil)
		put(t, s, token, "hunter2")
		for range 3 {
			f, err := os.CreateTemp(dir, temporaryPrefix(path)+"*")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("hunter2"); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		others := []string{".credentials.json.", ".credentials.json.x", ".credentials.json.5.12", ".other.json.12", "credentials.json.12"}
		for _, other := range others {
			if err := os.WriteFile(filepath.Join(dir, other), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := change(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		want := append(others, "credentials.json")
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("after %s: files %q, want %q", name, got, want)
		}
	}
}
