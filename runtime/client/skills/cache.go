package skills

import (
	"encoding/base32"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/internal/skillrules"
)

// cache holds the files of one skill of one server in the folder ROOT/SERVER/SKILL. A nil *cache
// holds none.
//
// SERVER is the label of the server in base32. The label can be recovered from it, and it is a
// valid name on every file system, also on those that ignore case. SKILL is the digest of the URI
// of the skill, so that no text of the server becomes part of a path. Files are named by their
// digests, so that no search for skills on disk finds a SKILL.md.
//
// Only removeServer reports errors of the file system. After other errors, files are fetched again.
type cache struct{ root, server, skill string }

var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func (s *Client) cacheOf(skill string) *cache {
	if s.options.Cache == "" {
		return nil
	}
	return &cache{s.options.Cache, lower.EncodeToString([]byte(s.options.Label)), plain(skillrules.Digest([]byte(skill)))}
}

// plain returns the hexadecimal digits of a digest.
func plain(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// path returns the name of a file. The digest has no separators, because entries are checked.
func (c *cache) path(f *skills.SkillFile) string {
	return filepath.Join(c.root, c.server, c.skill, plain(f.Digest))
}

// load returns a cached file, which the caller verifies.
func (c *cache) load(f *skills.SkillFile) ([]byte, error) {
	if c == nil {
		return nil, os.ErrNotExist
	}
	info, err := os.Lstat(c.path(f))
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return nil, os.ErrNotExist
	}
	file, err := os.Open(c.path(f))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, f.Size+1))
}

// store writes a verified file. It renames a complete file, so that no reader sees a part of one.
func (c *cache) store(f *skills.SkillFile, data []byte) {
	if c == nil {
		return
	}
	path := c.path(f)
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(path), "new-*") // with permissions 0600
	if err != nil {
		return
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
}

// removeServer removes all files of the server.
func (c *cache) removeServer() error {
	if c == nil {
		return nil
	}
	return os.RemoveAll(filepath.Join(c.root, c.server))
}
