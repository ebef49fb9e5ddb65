package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Open opens the database at path, and creates the file if there is none. It fails with
// [bolterrors.ErrTimeout] if another process still holds the lock on the file after timeout, or has
// replaced the file meanwhile. Damage makes bbolt panic, or fault where pages are missing; Open
// returns both as errors.
//
// Transactions do not write the list of free pages: after many deletions, each of them would write
// 8 bytes for every free page of the file. Instead, bbolt derives the list from the pages in use
// when it opens the file. It does so in a goroutine of its own, where a fault ends the process, so
// Open checks all that this goroutine follows first.
func Open(path string, mode os.FileMode, timeout time.Duration) (db *bbolt.DB, err error) {
	var file *os.File // that bbolt has opened last
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%s is damaged: %v", path, p)
			unlock(file)
			file.Close()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	options := bbolt.Options{
		Timeout:        timeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular() && info.Size() > 0:
		readOnly := options
		readOnly.ReadOnly = true // does not derive the free pages
		db, err := bbolt.Open(path, mode, &readOnly)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(checkPages(db, file), db.Close()); err != nil {
			return nil, err
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if db, err = bbolt.Open(path, mode, &options); err != nil {
		return nil, err
	}
	// Compact of another process may have replaced the file before this process locked it.
	locked, err := file.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Stat(path); err == nil && !os.SameFile(locked, named) {
			err = bolterrors.ErrTimeout
		}
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// The layout of a page, in the byte order of the machine: the id of the page (8 bytes), its kind
// (2), the number of its elements (2) and the number of pages that continue it (4); then the
// elements. An element of a branch is the position of its key (4), relative to the element, the
// size of the key (4) and the id of a page (8). An element of a leaf is flags (4), the position of
// its key (4), the size of the key (4), and the size of the value (4), which follows the key. The
// value of a bucket begins with the id of its root page (8), or 0 if its only page is in the value,
// and a number (8).
const (
	pageHead    = 16
	elementSize = 16
	bucketHead  = 16

	kindBranch = 1
	kindLeaf   = 2
	flagBucket = 1
)

// pages is a walk over the pages in use of a database.
type pages struct {
	file    io.ReaderAt
	size    uint64   // of a page in bytes
	count   uint64   // number of pages
	visited []uint64 // a bit for each page
	free    [][]byte // buffers of the size of a page
}

// checkPages checks that the pages of a database form trees, that the keys and values lie within
// their pages, and that the keys are in order. It does not check values.
func checkPages(db *bbolt.DB, file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		if tx.Size() > info.Size() {
			return fmt.Errorf("the file has %d bytes of %d", info.Size(), tx.Size())
		}
		p := pages{file: file, size: uint64(db.Info().PageSize)}
		p.count = uint64(tx.Size()) / p.size
		p.visited = make([]uint64, p.count/64+1)
		_, err := p.visit(uint64(tx.Cursor().Bucket().Root()), nil, nil)
		return err
	})
}

// buffer returns a buffer of the size of a page. The caller returns it to p.free.
func (p *pages) buffer() []byte {
	last := len(p.free) - 1
	if last < 0 {
		return make([]byte, p.size)
	}
	b := p.free[last]
	p.free = p.free[:last]
	return b
}

// visit checks a page and those below it. Unless they are nil, no key is less than from, and all
// are less than to. It returns the last key.
func (p *pages) visit(id uint64, from, to []byte) (last []byte, err error) {
	damaged := func(fault string) error { return fmt.Errorf("page %d of %d is damaged: %s", id, p.count, fault) }
	if id >= p.count {
		return nil, damaged("it does not exist")
	}
	first := p.buffer()
	defer func() { p.free = append(p.free, first) }()
	if _, err := p.file.ReadAt(first, int64(id*p.size)); err != nil {
		return nil, err
	}
	kind, elements := binary.NativeEndian.Uint16(first[8:]), uint64(binary.NativeEndian.Uint16(first[10:]))
	more := uint64(binary.NativeEndian.Uint32(first[12:]))
	total := (1 + more) * p.size
	switch {
	case binary.NativeEndian.Uint64(first) != id:
		return nil, damaged("it has another id")
	case more >= p.count-id:
		return nil, damaged("it is too long")
	case kind != kindLeaf && (kind != kindBranch || elements == 0):
		return nil, damaged("it is of another kind")
	case pageHead+elements*elementSize > total:
		return nil, damaged("it has too many elements")
	}
	for n := id; n <= id+more; n++ {
		if p.visited[n/64]&(1<<(n%64)) != 0 {
			return nil, damaged("it is used twice")
		}
		p.visited[n/64] |= 1 << (n % 64)
	}
	// part returns n bytes at an offset, which may be in a page that continues this one.
	part := func(at, n uint64) ([]byte, error) {
		if at+n > total {
			return nil, damaged("an element is outside of it")
		}
		if at+n <= p.size {
			return first[at : at+n], nil
		}
		b := make([]byte, n)
		_, err := p.file.ReadAt(b, int64(id*p.size+at))
		return b, err
	}
	position := 0 // of the position in an element
	if kind == kindLeaf {
		position = 4
	}
	element := func(n uint64) (e, key []byte, end uint64, err error) {
		at := pageHead + n*elementSize
		if e, err = part(at, elementSize); err != nil {
			return nil, nil, 0, err
		}
		at += uint64(binary.NativeEndian.Uint32(e[position:]))
		size := uint64(binary.NativeEndian.Uint32(e[position+4:]))
		key, err = part(at, size)
		return e, key, at + size, err
	}
	if elements == 0 {
		return nil, nil
	}
	last = from
	for n := range elements {
		e, key, end, err := element(n)
		if err != nil {
			return nil, err
		}
		order := bytes.Compare(last, key)
		if order > 0 || order == 0 && n > 0 || to != nil && bytes.Compare(key, to) >= 0 {
			return nil, damaged("a key is out of order")
		}
		if kind == kindBranch {
			next := to
			if n+1 < elements {
				if _, next, _, err = element(n + 1); err != nil {
					return nil, err
				}
			}
			if last, err = p.visit(binary.NativeEndian.Uint64(e[8:]), key, next); err != nil {
				return nil, err
			}
			continue
		}
		last = key
		size := uint64(binary.NativeEndian.Uint32(e[12:]))
		if end+size > total {
			return nil, damaged("a value is outside of it")
		}
		if binary.NativeEndian.Uint32(e)&flagBucket == 0 {
			continue
		}
		if size < bucketHead {
			return nil, damaged("a bucket is too short")
		}
		head, err := part(end, bucketHead)
		if err != nil {
			return nil, err
		}
		switch root := binary.NativeEndian.Uint64(head); {
		case root != 0:
			if _, err := p.visit(root, nil, nil); err != nil {
				return nil, err
			}
		case size < bucketHead+pageHead:
			return nil, damaged("a bucket is too short")
		}
	}
	return bytes.Clone(last), nil
}
