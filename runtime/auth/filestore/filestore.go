// Package filestore stores the credentials of package oauth in a file that only its owner can read.
// Several processes can share the file.
package filestore

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// store is the store of a file; see [Open].
type store struct {
	path string
	seal cipher.AEAD // nil if the file is not encrypted
}

var _ oauth.Store = (*store)(nil)

// Open returns an [oauth.Store] in the file at path. The first Put creates the file and its
// directory. Open fails if the file belongs to another user, if other users can read or write it,
// or if it is a symbolic link. On Windows, it does not check owner and permissions: the permissions
// of the directory protect the file.
//
// If key is not nil, it must have 32 bytes, and the file is encrypted with AES-256-GCM. Open fails
// if the file is encrypted with another key, if it is encrypted and key is nil, or if it is not
// encrypted and key is not nil.
//
// The store is safe for concurrent use. Each change replaces the whole file, so a crash cannot
// damage it. A process that is killed during a change may leave a copy of the credentials in a
// temporary file beside it; the next Put or Delete of any process removes that copy. While a lock
// is held, there is a file beside it whose name ends with ".lock". Windows, Linux, macOS and BSD
// have file locks. On other systems, locks exclude only the goroutines of one process.
func Open(path string, key []byte) (oauth.Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	s := &store{path: path}
	if key != nil {
		if len(key) != 32 {
			return nil, fmt.Errorf("filestore: key has %d bytes, want 32", len(key))
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("filestore: %w", err)
		}
		if s.seal, err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, fmt.Errorf("filestore: %w", err)
		}
	}
	_, err = s.read()
	return s, err
}

// version is the version of the file format.
const version = 1

// content is the content of the file. It has either Entries, or their encrypted JSON in Sealed.
type content struct {
	Version int     `json:"version"`
	Entries []entry `json:"entries,omitempty"`
	Sealed  []byte  `json:"sealed,omitempty"`
}

type entry struct {
	Kind      string `json:"kind"`
	Issuer    string `json:"issuer,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Principal string `json:"principal,omitempty"`
	Value     []byte `json:"value"`
}

func (e *entry) key() oauth.Key {
	return oauth.Key{Kind: e.Kind, Issuer: e.Issuer, Resource: e.Resource, Principal: e.Principal}
}

// sealedFor is the additional authenticated data of the encrypted entries.
var sealedFor = []byte("mcpwire filestore 1")

// maxSize is the maximum size of the file in bytes.
const maxSize = 64 << 20

// Get implements [oauth.Store].
func (s *store) Get(ctx context.Context, k oauth.Key) ([]byte, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	entries, err := s.read()
	if err != nil {
		return nil, err
	}
	if i := indexOf(entries, k); i >= 0 {
		return entries[i].Value, nil
	}
	return nil, oauth.ErrNotFound
}

func indexOf(entries []entry, k oauth.Key) int {
	return slices.IndexFunc(entries, func(e entry) bool { return e.key() == k })
}

// Put implements [oauth.Store].
func (s *store) Put(ctx context.Context, k oauth.Key, value []byte) error {
	return s.change(ctx, func(entries []entry) ([]entry, bool) {
		e := entry{k.Kind, k.Issuer, k.Resource, k.Principal, value}
		i := indexOf(entries, k)
		switch {
		case i < 0:
			return append(entries, e), true
		case bytes.Equal(entries[i].Value, value):
			return entries, false
		}
		entries[i] = e
		return entries, true
	})
}

// Delete implements [oauth.Store].
func (s *store) Delete(ctx context.Context, k oauth.Key) error {
	return s.change(ctx, func(entries []entry) ([]entry, bool) {
		i := indexOf(entries, k)
		if i < 0 {
			return entries, false
		}
		return slices.Delete(entries, i, i+1), true
	})
}

// change replaces the entries with the result of f. If f returns false, it writes nothing.
func (s *store) change(ctx context.Context, f func([]entry) ([]entry, bool)) error {
	unlock, err := s.lock(ctx, s.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if err := removeTemporary(s.path); err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	entries, err := s.read()
	if err != nil {
		return err
	}
	entries, changed := f(entries)
	if !changed {
		return nil
	}
	return s.write(entries)
}

// Lock implements [oauth.Store].
func (s *store) Lock(ctx context.Context, k oauth.Key) (unlock func(), err error) {
	name, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	// For a key that is not UTF-8, the escape depends on the version of Go, and processes of
	// different versions share the file.
	name = bytes.ReplaceAll(name, []byte(`\ufffd`), []byte("\ufffd"))
	sum := sha256.Sum256(name)
	return s.lock(ctx, s.path+"."+hex.EncodeToString(sum[:8])+".lock")
}

// lock creates the directory of the store and waits for the lock with a file name.
func (s *store) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	return lock(ctx, name)
}

// read returns the entries of the file.
func (s *store) read() ([]entry, error) {
	text, err := readPrivate(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("filestore: %w", err)
	}
	var c content
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("filestore: %s is damaged: remove it, and log in again", s.path) // the text of err may contain a part of the file
	}
	switch {
	case c.Version != version:
		return nil, fmt.Errorf("filestore: %s has version %d, want %d", s.path, c.Version, version)
	case s.seal == nil && c.Sealed != nil:
		return nil, fmt.Errorf("filestore: %s is encrypted", s.path)
	case s.seal == nil:
		return c.Entries, nil
	case c.Sealed == nil:
		return nil, fmt.Errorf("filestore: %s is not encrypted", s.path)
	}
	plain, err := s.seal.Open(nil, nil, c.Sealed, sealedFor)
	if err != nil {
		return nil, fmt.Errorf("filestore: %s cannot be decrypted with this key", s.path)
	}
	var entries []entry
	if err := json.Unmarshal(plain, &entries); err != nil {
		return nil, fmt.Errorf("filestore: %s is damaged", s.path)
	}
	return entries, nil
}

// readPrivate reads a file. It fails if other users can read or write the file.
func readPrivate(path string) ([]byte, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := checkPrivate(path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if len(text) > maxSize {
		err = fmt.Errorf("%s has more than %d bytes", path, maxSize)
	}
	return text, err
}

// write replaces the content of the file with entries.
func (s *store) write(entries []entry) error {
	c := content{Version: version, Entries: entries}
	if s.seal != nil {
		plain, err := json.Marshal(entries)
		if err != nil {
			return fmt.Errorf("filestore: %w", err)
		}
		c.Entries, c.Sealed = nil, s.seal.Seal(nil, nil, plain, sealedFor)
	}
	text, err := json.Marshal(&c)
	if err == nil && len(text) > maxSize {
		err = fmt.Errorf("%s would have more than %d bytes", s.path, maxSize)
	}
	if err == nil {
		err = replace(s.path, text)
	}
	if err != nil {
		return fmt.Errorf("filestore: %w", err)
	}
	return nil
}

// temporaryPrefix returns how the names of temporary files for path begin. A number follows.
func temporaryPrefix(path string) string { return "." + filepath.Base(path) + "." }

// removeTemporary removes the temporary files of killed processes. The caller holds the lock of the
// file, so no other process is writing one.
func removeTemporary(path string) error {
	if !excludesProcesses {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		number, ok := strings.CutPrefix(name, temporaryPrefix(path))
		if ok && number != "" && strings.Trim(number, "0123456789") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), name)))
		}
	}
	return err
}

// replace writes a new file and renames it to path.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPrefix(path)+"*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
