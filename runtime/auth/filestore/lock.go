package filestore

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// locks holds the locks that goroutines of this process hold or wait for, by file name.
var locks = struct {
	sync.Mutex
	byName map[string]*held
}{byName: map[string]*held{}}

type held struct {
	turn  chan struct{} // buffers one; full while the lock is held
	users int           // goroutines that hold the lock or wait for it; guarded by locks
}

// lock acquires the lock with a file name. It waits while another goroutine or process holds it.
func lock(ctx context.Context, name string) (unlock func(), err error) {
	locks.Lock()
	h := locks.byName[name]
	if h == nil {
		h = &held{turn: make(chan struct{}, 1)}
		locks.byName[name] = h
	}
	h.users++
	locks.Unlock()
	leave := func() {
		locks.Lock()
		defer locks.Unlock()
		if h.users--; h.users == 0 {
			delete(locks.byName, name)
		}
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
	f, err := lockPath(ctx, name)
	if err != nil {
		<-h.turn
		leave()
		return nil, err
	}
	return sync.OnceFunc(func() {
		os.Remove(name) // while the file is locked, so that no lock of another process is removed
		f.Close()       // releases the lock
		<-h.turn
		leave()
	}), nil
}

// pollDelay is the time between two attempts to acquire a lock that another process holds.
const pollDelay = 50 * time.Millisecond

// lockPath creates and locks a file. It waits while another process holds the lock.
func lockPath(ctx context.Context, name string) (*os.File, error) {
	for {
		f, ok, err := tryLock(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("filestore: lock: %w", err)
		case ok:
			return f, nil
		}
		select {
		case <-time.After(pollDelay):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock tries to create and lock a file. ok is false if another process holds the lock or has
// removed the file in the meantime.
func tryLock(name string) (f *os.File, ok bool, err error) {
	f, err = openLock(name)
	if err != nil {
		return nil, false, err
	}
	ok, err = lockFile(f)
	if err != nil || !ok || !isCurrent(f, name) {
		f.Close()
		return nil, false, err
	}
	return f, true, nil
}

// isCurrent reports whether f is still the file called name.
func isCurrent(f *os.File, name string) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	current, err := os.Lstat(name)
	return err == nil && os.SameFile(own, current)
}
