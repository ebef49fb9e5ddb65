// Package skills lists and loads the skills of servers: the host's side of the extension
// "io.modelcontextprotocol/skills" of the protocol.
//
//	docs, err := skills.New(c, skills.Options{Label: "docs", Approve: ask})
//	for entry, err := range docs.List(ctx) {
//		// Show entry.Name and entry.Description to the model.
//	}
//	skill, err := docs.Load(ctx, entry) // when the model chooses it
//	// Give skill.Text to the model.
//	data, err := skill.Read(ctx, "references/FORMS.md")
//
// # Trust
//
// A skill is untrusted input: instructions from a server. A digest proves that a file is the one
// that the entry describes. It does not prove who wrote it. Therefore:
//
//   - The package fetches a file only when it is needed. Listing fetches no files, and loading
//     fetches only the SKILL.md.
//   - The user approves a skill before it is loaded. The approval ends when a file changes. That of
//     a dynamic skill is for one load. A skill inside another one needs an approval of its own.
//   - The package verifies the size and the digest of each file before it returns it, and the front
//     matter of the SKILL.md. A dynamic skill has no sizes and digests, so only its front matter is
//     verified. A skill reads only files of its own entry, from its own server.
//   - The package grants nothing and executes nothing. Fields such as allowed-tools or hooks are in
//     [Entry].Frontmatter, as requests that the host may put to its user.
//
// Skills of different servers never mix, because the host gives each server a label of its own. The
// label is part of the key of approvals and of cached files, and marks the text for the model.
package skills

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/internal/skillrules"
)

// Errors of a [Client], beside [*VerificationError] and those of the requests.
var (
	// ErrUnsupported means that the server has not declared the extension, or not the setting
	// directoryRead that [Skill.Dir] needs.
	ErrUnsupported = errors.New("skills: not supported by the server")
	// ErrNotApproved means that the user has not approved a skill.
	ErrNotApproved = errors.New("skills: not approved")
	// ErrChanged means that the server has files that the entry of a loaded skill lacks. Get the
	// entry and load it again, which needs a new approval.
	ErrChanged = errors.New("skills: the skill has changed since it was loaded")
)

// VerificationError reports an entry or a file that must not be used.
type VerificationError struct {
	URI string
	// Reason is "entry", "limit" or "dynamic" for an entry, and "unlisted", "size", "digest",
	// "frontmatter" or "contents" for a file.
	Reason string
	Err    error
}

// Error implements error.
func (e *VerificationError) Error() string {
	return fmt.Sprintf("skills: %q: %s: %v", e.URI, e.Reason, e.Err)
}

// Unwrap returns Err.
func (e *VerificationError) Unwrap() error { return e.Err }

func unverified(uri, reason, format string, args ...any) error {
	return &VerificationError{uri, reason, fmt.Errorf(format, args...)}
}

// Options configures a [Client].
type Options struct {
	// Label is the name that the host and its users have for the server, in 1 to 100 bytes. It is
	// not the name that the server gives itself. Each server of a host needs a label of its own.
	Label string
	// Approve asks the user whether a skill may be loaded. If it is nil, no skill can be loaded. It
	// is called again if the files of the skill have changed, and for each load of a dynamic skill.
	// To remember approvals for longer than the Client lives, a host stores [Entry.Fingerprint].
	Approve func(ctx context.Context, e *Entry) (bool, error)
	// Dynamic admits dynamic skills. Their files may change from read to read, so that they have no
	// digests and cannot be verified.
	Dynamic bool
	// Cache is a folder for files of skills, or "" for none. Use a folder for this purpose alone,
	// outside all folders in which the host looks for skills of its user. The files in it remain
	// untrusted content of a server. They are verified at each use.
	Cache string
}

// Client lists and loads the skills of one server. Its methods may be called by many goroutines.
type Client struct {
	c       *client.Client
	options Options

	mu       sync.Mutex
	approved map[string]string // fingerprint by the URI of the skill
}

// maxLabel is the length of the longest label in bytes. It is limited because the label becomes the
// name of a folder.
const maxLabel = 100

// New returns a Client for the skills of the server of c. It sends nothing. It fails if the label
// is invalid.
func New(c *client.Client, o Options) (*Client, error) {
	if o.Label == "" || len(o.Label) > maxLabel || !utf8.ValidString(o.Label) {
		return nil, fmt.Errorf("skills: label %q, want 1 to %d bytes of UTF-8", o.Label, maxLabel)
	}
	return &Client{c: c, options: o, approved: map[string]string{}}, nil
}

// Supported reports whether the server has skills.
func (s *Client) Supported() bool {
	_, ok := s.settings()
	return ok
}

// settings returns the settings that the server has declared for the extension.
func (s *Client) settings() (settings skills.SkillsExtensionCapability, ok bool) {
	declared := s.c.Server()
	if declared == nil {
		return settings, false
	}
	text, ok := codec.Member(declared.Capabilities.Extensions, skills.ExtensionID)
	return settings, ok && codec.Unmarshal(text, &settings) == nil
}

// Entry is a skill that a server offers. Several skills may have the same name: a host tells them
// apart by Server and URI.
type Entry struct {
	Server      string // the label of the server
	Name        string
	Description string
	skills.Skill
}

// entry returns an entry of the server, or a VerificationError.
func (s *Client) entry(e *skills.Skill) (*Entry, error) {
	fields, err := skillrules.Check(e)
	if limit, ok := errors.AsType[*skillrules.LimitError](err); ok {
		return nil, &VerificationError{e.URI, "limit", limit}
	} else if err != nil {
		return nil, &VerificationError{e.URI, "entry", err}
	}
	return &Entry{s.options.Label, fields.Name, fields.Description, *e}, nil
}

// Fingerprint identifies the files of a skill. It changes with each file, with the label of the
// server and with the URI of the skill. It is "" for a dynamic skill, whose approval is for one
// load.
func (e *Entry) Fingerprint() string {
	list, ok := e.Resources.(*skills.SkillResourcesList)
	if !ok {
		return ""
	}
	var files [][2]string
	for _, f := range list.Value {
		files = append(files, [2]string{f.URI, f.Digest})
	}
	slices.SortFunc(files, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	text, err := codec.Marshal(value.Of([]any{e.Server, e.URI, files}))
	if err != nil {
		return "" // not reached for an entry of a Client, whose texts are UTF-8
	}
	return skillrules.Digest(text)
}

// List iterates over the skills that the server lists. The server may have more, see [Client.Get].
// For an invalid entry, List yields a [*VerificationError] and continues. It ends after any other
// error.
func (s *Client) List(ctx context.Context) iter.Seq2[*Entry, error] {
	return func(yield func(*Entry, error) bool) {
		if !s.Supported() {
			yield(nil, ErrUnsupported)
			return
		}
		p := new(skills.ListSkillsRequestParams)
		var cursors methods.Cursors
		for {
			page, err := client.Call[*skills.ListSkillsResult](ctx, s.c, skills.MethodSkillsList, p)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page.Skills {
				if !yield(s.entry(&page.Skills[i])) {
					return
				}
			}
			more, err := cursors.Next(page.NextCursor)
			if err != nil {
				yield(nil, err)
			}
			if err != nil || !more {
				return
			}
			p.Cursor = page.NextCursor
		}
	}
}

// Get returns the skill whose SKILL.md has the URI, listed or not.
func (s *Client) Get(ctx context.Context, uri string) (*Entry, error) {
	if !s.Supported() {
		return nil, ErrUnsupported
	}
	r, err := client.Call[*skills.GetSkillResult](ctx, s.c, skills.MethodSkillsGet, &skills.GetSkillRequestParams{URI: uri})
	if err != nil {
		return nil, err
	}
	if r.Skill.URI != uri {
		return nil, unverified(uri, "entry", "the server has returned the skill %q", r.Skill.URI)
	}
	return s.entry(&r.Skill)
}

// Skill is a loaded skill: approved, and with a verified SKILL.md. Its methods may be called by
// many goroutines.
type Skill struct {
	// Entry is what the user has approved.
	Entry Entry
	// Text is the SKILL.md without its front matter, between lines that tell the model which server
	// it comes from.
	Text string

	s     *Client
	files map[string]*skills.SkillFile // by decoded path; nil if the skill is dynamic

	mu   sync.Mutex
	read int64 // bytes that were read, if the skill is dynamic
}

// Load asks the user to approve a skill of the server, fetches its SKILL.md and verifies it. It
// fails with [ErrNotApproved], with a [*VerificationError], or with the error of the request.
// [Skill.Read] fetches the other files.
func (s *Client) Load(ctx context.Context, e *Entry) (*Skill, error) {
	if e.Server != s.options.Label {
		return nil, unverified(e.URI, "entry", "it is a skill of the server %q", e.Server)
	}
	held, err := s.copyOf(e)
	if err != nil {
		return nil, err
	}
	if held.Fingerprint() == "" && !s.options.Dynamic {
		return nil, unverified(e.URI, "dynamic", "dynamic skills are not admitted")
	}
	if err := s.approve(ctx, held); err != nil {
		return nil, err
	}
	skill := &Skill{Entry: *held, s: s, files: skillrules.Files(&held.Skill)}
	file, err := skill.file(ctx, skillrules.FileName, held.URI)
	if err != nil {
		return nil, err
	}
	object, body, err := skillrules.ParseFile(file)
	if err != nil {
		return nil, &VerificationError{e.URI, "frontmatter", err}
	}
	if !skillrules.SameFields(object, held.Frontmatter) {
		return nil, unverified(e.URI, "frontmatter", "SKILL.md has %.200s, the entry has %.200s", object, held.Frontmatter)
	}
	skill.Text = skill.mark(body)
	return skill, nil
}

// copyOf returns a checked copy of an entry that the caller cannot change.
func (s *Client) copyOf(e *Entry) (*Entry, error) {
	text, err := codec.Marshal(&e.Skill)
	if err != nil {
		return nil, &VerificationError{e.URI, "entry", err}
	}
	var own skills.Skill
	if err := codec.Unmarshal(text, &own); err != nil {
		return nil, &VerificationError{e.URI, "entry", err}
	}
	return s.entry(&own)
}

// approve asks the user, unless the same files of the skill are approved.
func (s *Client) approve(ctx context.Context, e *Entry) error {
	fingerprint := e.Fingerprint()
	s.mu.Lock()
	known := fingerprint != "" && s.approved[e.URI] == fingerprint
	s.mu.Unlock()
	if known {
		return nil
	}
	if s.options.Approve == nil {
		return fmt.Errorf("%w: %q of server %q: Options.Approve is nil", ErrNotApproved, e.URI, e.Server)
	}
	shown, err := s.copyOf(e)
	if err != nil {
		return err
	}
	ok, err := ask(ctx, s.options.Approve, shown)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: %q of server %q", ErrNotApproved, e.URI, e.Server)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.approved[e.URI] = fingerprint
	return nil
}

func ask(ctx context.Context, approve func(context.Context, *Entry) (bool, error), e *Entry) (ok bool, err error) {
	defer boundary.Catch(&err)
	return approve(ctx, e)
}

// mark returns a text for the model. The line at its end has a digest of the text, so that the text
// cannot contain it.
func (s *Skill) mark(body []byte) string {
	e := &s.Entry
	_, mark, _ := strings.Cut(skillrules.Digest(slices.Concat([]byte(e.Server+"\n"+e.URI+"\n"), body)), ":")
	return fmt.Sprintf("[skill %q of the MCP server %q, untrusted content until the line \"[end %s]\"]\n%s\n[end %[3]s]\n", e.URI, e.Server, mark[:16], body)
}

// Read returns a verified file of the skill. ref is a reference in its SKILL.md: a path relative to
// that file, or a URI. For a file that the entry does not list, Read fails with a
// [*VerificationError] and sends no request.
func (s *Skill) Read(ctx context.Context, ref string) ([]byte, error) {
	uri := s.resolve(ref)
	if uri == "" {
		return nil, unverified(s.Entry.URI, "unlisted", "%q is no file of the skill", ref)
	}
	path, err := skillrules.Inside(s.Entry.URI, uri)
	if err != nil {
		return nil, &VerificationError{s.Entry.URI, "unlisted", err}
	}
	return s.file(ctx, path, uri)
}

// resolve returns the URI of a file of the skill, in the spelling of the entry, or "".
func (s *Skill) resolve(ref string) string {
	inside := func(ref string) string {
		if strings.Contains(ref, "://") {
			path, err := skillrules.Inside(s.Entry.URI, ref)
			if err != nil {
				return ""
			}
			return path
		}
		clean := path.Clean(ref)
		for segment := range strings.SplitSeq(clean, "/") {
			if skillrules.CheckSegment(segment) != nil {
				return ""
			}
		}
		return clean
	}
	refs := []string{inside(ref)} // ref as the name of a file
	link, _, _ := strings.Cut(ref, "#")
	if text, err := url.PathUnescape(link); err == nil && !strings.Contains(ref, "://") {
		refs = append(refs, inside(text)) // ref as a link in Markdown
	}
	for _, path := range refs {
		switch {
		case path == "":
		case s.files == nil:
			return skillrules.Folder(s.Entry.URI) + "/" + skillrules.Escape(path)
		default:
			if f := s.files[path]; f != nil {
				return f.URI
			}
		}
	}
	return ""
}

// Dir returns the direct children of a folder of the skill. folder is relative to the SKILL.md; "."
// is the root of the skill. Dir fails with [ErrChanged] if one of the children is not in the entry,
// and with [ErrUnsupported] if the server does not read folders.
func (s *Skill) Dir(ctx context.Context, folder string) ([]mcp.Resource, error) {
	settings, _ := s.s.settings()
	if settings.DirectoryRead == nil || !*settings.DirectoryRead {
		return nil, ErrUnsupported
	}
	uri := skillrules.Folder(s.Entry.URI)
	if folder = path.Clean(folder); folder != "." {
		uri += "/" + skillrules.Escape(folder)
		if _, err := skillrules.Inside(s.Entry.URI, uri); err != nil {
			return nil, &VerificationError{s.Entry.URI, "unlisted", err}
		}
	}
	var all []mcp.Resource
	p := &skills.ReadDirectoryRequestParams{URI: uri}
	var cursors methods.Cursors
	for {
		page, err := client.Call[*skills.ReadDirectoryResult](ctx, s.s.c, skills.MethodResourcesDirectoryRead, p)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Resources {
			if err := s.checkChild(&r); err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		if more, err := cursors.Next(page.NextCursor); err != nil || !more {
			return all, err
		}
		p.Cursor = page.NextCursor
	}
}

// checkChild checks that a child of a folder is part of the entry.
func (s *Skill) checkChild(r *mcp.Resource) error {
	path, err := skillrules.Inside(s.Entry.URI, r.URI)
	if err != nil {
		return &VerificationError{r.URI, "unlisted", err}
	}
	if s.files == nil || r.MIMEType != nil && *r.MIMEType == "inode/directory" {
		return nil
	}
	if s.files[path] == nil {
		return fmt.Errorf("%w: %q is not one of its %d files", ErrChanged, r.URI, len(s.files))
	}
	return nil
}

// file returns a file by its path in the skill, from the cache or the server.
func (s *Skill) file(ctx context.Context, path, uri string) ([]byte, error) {
	f := s.files[path]
	if f == nil {
		data, err := s.s.fetch(ctx, uri, true)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.read += int64(len(data)); s.read > skillrules.MaxBytes {
			return nil, &VerificationError{s.Entry.URI, "limit", skillrules.CheckLimits(0, s.read)}
		}
		return data, nil
	}
	cache := s.s.cacheOf(s.Entry.URI)
	if data, err := cache.load(f); err == nil && verify(f, data) == nil {
		return data, nil
	}
	data, err := s.s.fetch(ctx, f.URI, true)
	if err == nil && verify(f, data) != nil {
		data, err = s.s.fetch(ctx, f.URI, false) // the first one may have been a cached result
	}
	if err != nil {
		return nil, err
	}
	if err := verify(f, data); err != nil {
		return nil, err
	}
	cache.store(f, data)
	return data, nil
}

// verify checks a file against its entry.
func verify(f *skills.SkillFile, data []byte) error {
	if int64(len(data)) != f.Size {
		return unverified(f.URI, "size", "it has %d bytes, the entry says %d", len(data), f.Size)
	}
	if digest := skillrules.Digest(data); digest != f.Digest {
		return unverified(f.URI, "digest", "it has %s, the entry says %s", digest, f.Digest)
	}
	return nil
}

// fetch reads a file from the server. If cached is set, the result may come from the cache of s.c.
func (s *Client) fetch(ctx context.Context, uri string, cached bool) ([]byte, error) {
	var r *mcp.ReadResourceResult
	var err error
	if cached {
		r, err = s.c.ReadResource(ctx, uri)
	} else {
		r, err = client.Call[*mcp.ReadResourceResult](ctx, s.c, mcp.MethodResourcesRead, &mcp.ReadResourceRequestParams{URI: uri})
	}
	if err != nil {
		return nil, err
	}
	if len(r.Contents) != 1 {
		return nil, unverified(uri, "contents", "the server has returned %d contents, want 1", len(r.Contents))
	}
	switch c := r.Contents[0].(type) {
	case *mcp.TextResourceContents:
		return []byte(c.Text), nil
	case *mcp.BlobResourceContents:
		data, err := base64.StdEncoding.DecodeString(c.Blob)
		if err != nil {
			return nil, &VerificationError{uri, "contents", err}
		}
		return data, nil
	}
	return nil, unverified(uri, "contents", "the contents are neither text nor binary")
}

// Forget drops the approvals, and the cached files of the server. Call it when the user removes the
// server.
func (s *Client) Forget() error {
	s.mu.Lock()
	clear(s.approved)
	s.mu.Unlock()
	return s.cacheOf("").removeServer()
}
