package skills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/internal/skillrules"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// Sizes of pages. A page of skills ends after the first skill that reaches one of the limits.
const (
	pageSize  = 100
	pageFiles = 4 * skillrules.MaxFiles
)

// Options configures a [Catalog]. The zero value is useful.
type Options struct {
	// Prefix comes before the paths of all skills, such as "acme" for "skill://acme/pdf/SKILL.md".
	Prefix string
	// Skip is called with the folder of each invalid skill and the reason. The catalog leaves the
	// skill out. If Skip is nil, [Load] and [Catalog.Reload] fail at the first invalid skill.
	Skip func(dir string, err error)
	// TTL is the TTL of the [Source].
	TTL time.Duration
}

// Catalog holds the skills of a folder. Its methods may be called by many goroutines.
type Catalog struct {
	files   fs.FS
	options Options
	root    string // the URI of the Source

	mu      sync.Mutex // serializes Reload
	state   atomic.Pointer[state]
	servers []*server.Server
}

// state holds the skills that a catalog has read. It is immutable.
type state struct {
	uris   []string // of the skills, sorted
	skills map[string]*skills.Skill
	files  map[string]file           // by decoded path, with the prefix
	dirs   map[string][]mcp.Resource // children by decoded path of the folder, sorted by URI
}

// file is a file of a skill.
type file struct {
	name  string // in the file system
	entry skills.SkillFile
}

// Load reads all skills in files, at any depth. Each folder with a file SKILL.md is a skill, and
// the name in its front matter must be that of the folder. The files of a skill inside another
// skill belong to both.
//
// files is, for example, an embed.FS. If other programs can write to the folder, use the FS of an
// [os.Root], so that no link leads out of it. options may be nil.
//
// A skill is invalid if its front matter is invalid, if it has more than 512 files or 16 MiB, or if
// its folder contains a link, a special file, or a name with a backslash or a control character.
func Load(files fs.FS, options *Options) (*Catalog, error) {
	c := &Catalog{files: files, root: "skill://"}
	if options != nil {
		c.options = *options
	}
	if files == nil {
		return nil, errors.New("skills: nil FS")
	}
	if c.options.Prefix != "" {
		for segment := range strings.SplitSeq(c.options.Prefix, "/") {
			if err := skillrules.CheckSegment(segment); err != nil {
				return nil, fmt.Errorf("skills: prefix %q: %w", c.options.Prefix, err)
			}
		}
		c.root += skillrules.Escape(c.options.Prefix) + "/"
	}
	_, err := c.Reload()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Changes has the URIs of the skills that [Catalog.Reload] has added, removed and changed.
type Changes struct{ Added, Removed, Changed []string }

// Reload reads all skills again, and announces changes to the clients of the servers to which the
// catalog was added. If it fails, the catalog stays as it was.
func (c *Catalog) Reload() (Changes, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := c.read()
	if err != nil {
		return Changes{}, err
	}
	last := c.state.Swap(next)
	if last == nil {
		last = &state{}
	}
	var changes Changes
	for _, uri := range next.uris {
		switch old := last.skills[uri]; {
		case old == nil:
			changes.Added = append(changes.Added, uri)
		case !sameEntry(old, next.skills[uri]):
			changes.Changed = append(changes.Changed, uri)
		}
	}
	for _, uri := range last.uris {
		if next.skills[uri] == nil {
			changes.Removed = append(changes.Removed, uri)
		}
	}
	for _, s := range c.servers {
		if len(changes.Added)+len(changes.Removed)+len(changes.Changed) > 0 {
			s.ListChanged(mcp.MethodNotificationsResourcesListChanged)
		}
		for name, f := range last.files {
			if next.files[name].entry.Digest != f.entry.Digest {
				s.ResourceUpdated(f.entry.URI)
			}
		}
	}
	return changes, nil
}

func sameEntry(a, b *skills.Skill) bool {
	x, y := a.Resources.(*skills.SkillResourcesList), b.Resources.(*skills.SkillResourcesList)
	return string(a.Frontmatter) == string(b.Frontmatter) && slices.EqualFunc(x.Value, y.Value, func(f, g skills.SkillFile) bool {
		return f.URI == g.URI && f.Digest == g.Digest && f.Size == g.Size
	})
}

// read reads all skills.
func (c *Catalog) read() (*state, error) {
	s := &state{skills: map[string]*skills.Skill{}, files: map[string]file{}, dirs: map[string][]mcp.Resource{}}
	err := fs.WalkDir(c.files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("skills: %w", err)
		}
		if d.IsDir() || path.Base(name) != skillrules.FileName {
			return nil
		}
		dir := path.Dir(name)
		if err := c.readSkill(s, dir); err != nil {
			err = fmt.Errorf("skills: folder %q: %w", dir, err)
			if c.options.Skip == nil {
				return err
			}
			c.options.Skip(dir, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.uris = slices.Sorted(maps.Keys(s.skills))
	for _, e := range s.skills {
		_, dir, _ := skillrules.Path(skillrules.Folder(e.URI)) // checked before
		children := s.dirs[dir]
		i := slices.IndexFunc(children, func(r mcp.Resource) bool { return r.URI == e.URI })
		fields, _ := skillrules.CheckFields(e.Frontmatter) // checked before
		children[i] = skillFile(e, fields)
	}
	for _, children := range s.dirs {
		slices.SortFunc(children, func(a, b mcp.Resource) int { return strings.Compare(a.URI, b.URI) })
	}
	return s, nil
}

// readSkill adds the skill in a folder to s. A file of a skill inside another skill is read once
// for each of them. readSkill fails if a file differs from what was read before.
func (c *Catalog) readSkill(s *state, dir string) error {
	own := state{files: map[string]file{}, dirs: map[string][]mcp.Resource{}}
	e := &skills.Skill{URI: c.uri(path.Join(dir, skillrules.FileName))}
	manifest := new(skills.SkillResourcesList)
	left := int64(skillrules.MaxBytes)
	err := fs.WalkDir(c.files, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != dir {
			if err := skillrules.CheckSegment(d.Name()); err != nil {
				return err
			}
		}
		place := c.path(name)
		switch {
		case d.IsDir():
			own.dirs[place] = []mcp.Resource{}
			if name != dir {
				parent := path.Dir(place)
				own.dirs[parent] = append(own.dirs[parent], mcp.Resource{URI: c.uri(name), Name: d.Name(), MIMEType: new("inode/directory")})
			}
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%q is a link or a special file", name)
		}
		data, err := c.contents(name, left)
		if errors.Is(err, errLong) {
			return skillrules.CheckLimits(0, skillrules.MaxBytes+1)
		} else if err != nil {
			return err
		}
		left -= int64(len(data))
		f := skills.SkillFile{URI: c.uri(name), Digest: skillrules.Digest(data), Size: int64(len(data))}
		own.files[place] = file{name, f}
		manifest.Value = append(manifest.Value, f)
		if name == path.Join(dir, skillrules.FileName) {
			if e.Frontmatter, _, err = skillrules.ParseFile(data); err != nil {
				return err
			}
		}
		r := mcp.Resource{URI: f.URI, Name: d.Name(), MIMEType: new(mimeType(d.Name())), Size: &f.Size}
		own.dirs[path.Dir(place)] = append(own.dirs[path.Dir(place)], r)
		return skillrules.CheckLimits(int64(len(manifest.Value)), 0)
	})
	if err != nil {
		return err
	}
	e.Resources = manifest
	if _, err := skillrules.Check(e); err != nil {
		return err
	}
	for place, f := range own.files {
		if other, ok := s.files[place]; ok && other.entry.Digest != f.entry.Digest {
			return fmt.Errorf("%q changes while the catalog is loaded", f.name)
		}
	}
	s.skills[e.URI] = e
	maps.Copy(s.files, own.files)
	maps.Copy(s.dirs, own.dirs)
	return nil
}

// path returns the decoded path of a file in URIs.
func (c *Catalog) path(name string) string { return path.Join(c.options.Prefix, name) }

// uri returns the URI of a file.
func (c *Catalog) uri(name string) string { return "skill://" + skillrules.Escape(c.path(name)) }

var errLong = errors.New("file is longer than expected")

// contents reads a file that has at most max bytes.
func (c *Catalog) contents(name string, max int64) ([]byte, error) {
	// A file can become a link, or a pipe whose opening blocks, after its folder was listed.
	if info, err := fs.Lstat(c.files, name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is a link or a special file", name)
	}
	f, err := c.files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is a link or a special file", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > max {
		return nil, errLong
	}
	return data, nil
}

// Source returns the source of the catalog, for [Add].
func (c *Catalog) Source() Source {
	return Source{URI: c.root, List: c.list, Get: c.get, Read: c.readFile, Dir: c.dir, TTL: c.options.TTL, catalog: c}
}

// announceTo makes Reload announce changes to the clients of a server.
func (c *Catalog) announceTo(s *server.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = append(c.servers, s)
}

func (c *Catalog) list(_ context.Context, _ *server.Call, cursor string) (page []skills.Skill, next string, err error) {
	s := c.state.Load()
	from, found := slices.BinarySearch(s.uris, cursor)
	if found {
		from++
	}
	files := 0
	for i, uri := range s.uris[from:] {
		page = append(page, *s.skills[uri])
		files += len(s.skills[uri].Resources.(*skills.SkillResourcesList).Value)
		if (len(page) == pageSize || files >= pageFiles) && from+i+1 < len(s.uris) {
			return page, uri, nil
		}
	}
	return page, "", nil
}

func (c *Catalog) get(_ context.Context, _ *server.Call, uri string) (*skills.Skill, error) {
	if e := c.state.Load().skills[uri]; e != nil {
		return e, nil
	}
	return nil, fs.ErrNotExist
}

// place returns the decoded path of a URI of the catalog.
func (c *Catalog) place(uri string) (string, error) {
	scheme, path, err := skillrules.Path(uri)
	if err != nil || scheme != "skill" {
		return "", fs.ErrNotExist
	}
	return path, nil
}

func (c *Catalog) readFile(_ context.Context, _ *server.Call, uri string) ([]byte, error) {
	place, err := c.place(uri)
	if err != nil {
		return nil, err
	}
	f, ok := c.state.Load().files[place]
	if !ok {
		return nil, fs.ErrNotExist
	}
	data, err := c.contents(f.name, f.entry.Size)
	if err == nil && skillrules.Digest(data) != f.entry.Digest {
		err = errors.New("the digest differs")
	}
	if err != nil {
		// %v hides an fs.ErrNotExist, which would tell the client that a file of its entry is
		// unknown.
		return nil, fmt.Errorf("skills: file %q has changed since the catalog was loaded: %v", f.name, err)
	}
	return data, nil
}

func (c *Catalog) dir(_ context.Context, _ *server.Call, uri, cursor string) (page []mcp.Resource, next string, err error) {
	place, err := c.place(uri)
	if err != nil {
		return nil, "", err
	}
	children, ok := c.state.Load().dirs[place]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	from, found := slices.BinarySearchFunc(children, cursor, func(r mcp.Resource, uri string) int { return strings.Compare(r.URI, uri) })
	if found {
		from++
	}
	children = children[from:]
	if len(children) > pageSize {
		children = children[:pageSize]
		next = children[pageSize-1].URI
	}
	return children, next, nil
}
