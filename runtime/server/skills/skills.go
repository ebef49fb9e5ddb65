// Package skills serves skills: it is the server's side of the extension
// "io.modelcontextprotocol/skills" of the protocol.
//
// A skill is a folder with a file SKILL.md. That file holds instructions for a model, and may
// mention other files of the folder. [Load] reads a folder of skills into a catalog, and [Add] adds
// the catalog to a server:
//
//	catalog, err := skills.Load(os.DirFS("skills"), nil)
//	if err != nil {
//		return err
//	}
//	err = skills.Add(s, catalog.Source())
//
// The server then serves skills/list, skills/get and resources/directory/read, and the files by
// resources/read. For skills that a program generates, or that only some principals may see, add a
// [Source] of your own.
//
// # Integrity
//
// The entry of a skill lists all its files with their digests, and a client rejects other bytes. A
// catalog therefore reads a file for each request, and the request fails if the file no longer has
// the digest of its entry. [Catalog.Reload] publishes changed files.
//
// The catalog looks the URI of a request up in its entries. It never makes a path of the file
// system from a URI, so no URI leads out of the folder.
package skills

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/internal/skillrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Source provides skills to a server. Its functions may be called by many goroutines. They may
// return different skills to different principals; see [server.Call.Principal]. For a URI that the
// source does not serve, they return an error that wraps [fs.ErrNotExist].
type Source struct {
	// URI is the prefix of the URIs of all files of the source, such as "github://". It ends with
	// "/".
	URI string
	// List returns a page of the skills. cursor is "" for the first page, and otherwise the next
	// that List returned with the page before. It comes from the client, so it may be forged. next
	// is "" for the last page.
	List func(ctx context.Context, c *server.Call, cursor string) (page []skills.Skill, next string, err error)
	// Get returns the skill whose SKILL.md has the URI. List may leave out skills that Get returns.
	Get func(ctx context.Context, c *server.Call, uri string) (*skills.Skill, error)
	// Read returns the contents of a file. Clients reject contents that do not have the digest in
	// the entry.
	Read func(ctx context.Context, c *server.Call, uri string) ([]byte, error)
	// Dir returns a page of the direct children of a folder of a skill, with cursors as in List. It
	// may be nil. The server offers resources/directory/read if all its sources have a Dir.
	Dir func(ctx context.Context, c *server.Call, uri, cursor string) (page []mcp.Resource, next string, err error)
	// TTL is how long clients may reuse entries and folders before they ask again.
	TTL time.Duration

	catalog *Catalog // announces its changes to the server; may be nil
}

// check returns an error if a field is invalid.
func (s *Source) check() error {
	_, _, err := skillrules.Path(s.URI + "x")
	switch {
	case !strings.HasSuffix(s.URI, "/") || err != nil:
		return fmt.Errorf("skills: source %q: want a URI that ends with /, such as \"skill://\"", s.URI)
	case s.List == nil || s.Get == nil || s.Read == nil:
		return fmt.Errorf("skills: source %q: want the functions List, Get and Read", s.URI)
	case s.TTL < 0:
		return fmt.Errorf("skills: source %q: negative TTL (%v)", s.URI, s.TTL)
	}
	return nil
}

// Add adds the skills of the sources to a server, and declares the extension. Call it once for each
// server, with all sources. Add fails if a source is invalid, or if the server already has skills.
// The server also records the error, see [server.Server.Err].
func Add(s *server.Server, sources ...Source) error {
	if s == nil {
		return errors.New("skills: nil Server")
	}
	a := &added{sources: slices.Clone(sources), ttl: time.Duration(1<<63 - 1)}
	// The source with the longest matching prefix serves a URI, as with templates.
	slices.SortStableFunc(a.sources, func(x, y Source) int { return len(y.URI) - len(x.URI) })
	dirs := true
	for _, source := range a.sources {
		if err := source.check(); err != nil {
			return s.RecordMistake(err)
		}
		a.ttl = min(a.ttl, source.TTL)
		dirs = dirs && source.Dir != nil
	}
	if len(sources) == 0 {
		return s.RecordMistake(errors.New("skills: no sources"))
	}
	e := server.Extension{
		ID: skills.ExtensionID,
		Methods: map[string]session.Handler{
			skills.MethodSkillsList: server.Method(a.list),
			skills.MethodSkillsGet:  server.Method(a.get),
		},
		Validate: func(method string, params []byte) error {
			return skills.ValidateParams(skills.RevisionExtSkills, method, params)
		},
	}
	if dirs {
		e.Methods[skills.MethodResourcesDirectoryRead] = server.Method(a.dir)
		e.Settings = []byte(`{"directoryRead":true}`)
	}
	if err := s.Extend(e); err != nil {
		return err
	}
	for _, source := range a.sources {
		list := server.ListFunc(func(ctx context.Context, c *server.Call, cursor string) ([]mcp.Resource, string, error) {
			return listFiles(ctx, c, &source, cursor)
		})
		read := func(ctx context.Context, c *server.Call, r server.Resource) (mcp.AnyResourceContents, error) {
			data, err := source.Read(ctx, c, r.URI)
			if err != nil {
				return nil, toClient(err, r.URI)
			}
			return contents(r.URI, data), nil
		}
		describe := server.DefineTemplate(func(t *mcp.ResourceTemplate) { t.Description = new("The files of skills.") })
		if err := server.AddTemplate(s, source.URI+"{+path}", "skills", read, list, describe).Err(); err != nil {
			return err
		}
		if source.catalog != nil {
			source.catalog.announceTo(s)
		}
	}
	return nil
}

// added holds the sources of a server.
type added struct {
	sources []Source // those with longer URIs first
	ttl     time.Duration
}

// source returns the source that serves a URI.
func (a *added) source(uri string) (*Source, error) {
	for i := range a.sources {
		if strings.HasPrefix(uri, a.sources[i].URI) {
			return &a.sources[i], nil
		}
	}
	return nil, toClient(fs.ErrNotExist, uri)
}

// toClient returns the error to send for an error of a source (Skills extension, "Error Handling").
func toClient(err error, uri string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return jsonrpc.InvalidParams(fmt.Errorf("unknown to the server: %q", uri))
	}
	return err
}

// hints returns the caching hints of a result. They are nil in revisions without such hints. The
// scope is private, because a source may return other skills to another principal.
func hints(c *server.Call, ttl time.Duration) (ttlMs *int64, scope *skills.CacheScope) {
	if !c.Revision().Traits().CacheHints {
		return nil, nil
	}
	return new(ttl.Milliseconds()), new(skills.CacheScopePrivate)
}

// list serves skills/list. A cursor is the index of a source, a colon, and the cursor of that
// source.
func (a *added) list(ctx context.Context, c *server.Call, p skills.ListSkillsRequestParams) (*skills.ListSkillsResult, error) {
	index, inner := 0, ""
	if p.Cursor != nil && *p.Cursor != "" {
		number, rest, _ := strings.Cut(*p.Cursor, ":")
		var err error
		if index, err = strconv.Atoi(number); err != nil || index < 0 || index >= len(a.sources) {
			return nil, jsonrpc.InvalidParams(errors.New("invalid cursor"))
		}
		inner = rest
	}
	page, next, err := a.sources[index].List(ctx, c, inner)
	if err != nil {
		return nil, err
	}
	for i := range page {
		if _, err := a.sources[index].checkEntry(&page[i]); err != nil {
			return nil, err
		}
	}
	r := &skills.ListSkillsResult{Skills: page}
	if r.Skills == nil {
		r.Skills = []skills.Skill{}
	}
	switch {
	case next != "":
		r.NextCursor = new(strconv.Itoa(index) + ":" + next)
	case index+1 < len(a.sources):
		r.NextCursor = new(strconv.Itoa(index+1) + ":")
	}
	r.TTLMs, r.CacheScope = hints(c, a.ttl)
	return r, nil
}

// checkEntry returns an error if an entry breaks a rule of the extension, because every host would
// reject it, or if its URI is not one of the source.
func (s *Source) checkEntry(e *skills.Skill) (skillrules.Fields, error) {
	fields, err := skillrules.Check(e)
	if err != nil {
		return fields, fmt.Errorf("skills: source %q: %w", s.URI, err)
	}
	if !strings.HasPrefix(e.URI, s.URI) {
		return fields, fmt.Errorf("skills: source %q: skill URI %q does not begin with that of the source", s.URI, e.URI)
	}
	return fields, nil
}

func (a *added) get(ctx context.Context, c *server.Call, p skills.GetSkillRequestParams) (*skills.GetSkillResult, error) {
	source, err := a.source(p.URI)
	if err != nil {
		return nil, err
	}
	e, err := source.Get(ctx, c, p.URI)
	if err != nil {
		return nil, toClient(err, p.URI)
	}
	if e == nil {
		return nil, fmt.Errorf("skills: source %q: nil skill for %q", source.URI, p.URI)
	}
	if _, err := source.checkEntry(e); err != nil {
		return nil, err
	}
	r := &skills.GetSkillResult{Skill: *e}
	r.TTLMs, r.CacheScope = hints(c, source.TTL)
	return r, nil
}

func (a *added) dir(ctx context.Context, c *server.Call, p skills.ReadDirectoryRequestParams) (*skills.ReadDirectoryResult, error) {
	source, err := a.source(p.URI + "/") // the URI of a source may be that of the folder, with a slash
	if err != nil {
		return nil, err
	}
	cursor := ""
	if p.Cursor != nil {
		cursor = *p.Cursor
	}
	page, next, err := source.Dir(ctx, c, p.URI, cursor)
	if err != nil {
		return nil, toClient(err, p.URI)
	}
	r := &skills.ReadDirectoryResult{Resources: page}
	if r.Resources == nil {
		r.Resources = []mcp.Resource{}
	}
	if next != "" {
		r.NextCursor = &next
	}
	r.TTLMs, r.CacheScope = hints(c, source.TTL)
	return r, nil
}

// listFiles returns a page of what resources/list lists of a source: the SKILL.md of each skill.
func listFiles(ctx context.Context, c *server.Call, source *Source, cursor string) ([]mcp.Resource, string, error) {
	page, next, err := source.List(ctx, c, cursor)
	if err != nil {
		return nil, "", err
	}
	var list []mcp.Resource
	for i := range page {
		e := &page[i]
		fields, err := source.checkEntry(e)
		if err != nil {
			return nil, "", err
		}
		list = append(list, skillFile(e, fields))
	}
	return list, next, nil
}

// skillFile describes the SKILL.md of a checked skill as a resource (Skills extension, "Resource
// Metadata").
func skillFile(e *skills.Skill, fields skillrules.Fields) mcp.Resource {
	r := mcp.Resource{URI: e.URI, Name: fields.Name, Description: &fields.Description, MIMEType: new(mimeType(skillrules.FileName))}
	if list, ok := e.Resources.(*skills.SkillResourcesList); ok {
		for i := range list.Value {
			if list.Value[i].URI == e.URI {
				r.Size = &list.Value[i].Size
			}
		}
	}
	return r
}

// contents returns the bytes of a file as the contents of a resource. Bytes that are not UTF-8
// become a blob, because a text would change them.
func contents(uri string, data []byte) mcp.AnyResourceContents {
	name := uri[strings.LastIndexByte(uri, '/')+1:]
	if utf8.Valid(data) {
		return &mcp.TextResourceContents{URI: uri, MIMEType: new(mimeType(name)), Text: string(data)}
	}
	return &mcp.BlobResourceContents{URI: uri, MIMEType: new(mimeType(name)), Blob: base64.StdEncoding.EncodeToString(data)}
}

// mimeType returns the media type of a file by its name. It does not use the table of the system,
// so that a server describes its files in the same way everywhere.
func mimeType(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md":
		return "text/markdown"
	case ".txt", ".sh", ".py", ".rb", ".go", ".ts", ".yaml", ".yml", ".toml", ".ini", ".sql", ".tmpl":
		return "text/plain"
	case ".html":
		return "text/html"
	case ".css":
		return "text/css"
	case ".csv":
		return "text/csv"
	case ".js", ".mjs":
		return "text/javascript"
	case ".json":
		return "application/json"
	case ".xml":
		return "application/xml"
	case ".pdf":
		return "application/pdf"
	case ".png":
		return "image/png"
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".gif":
		return "image/gif"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}
