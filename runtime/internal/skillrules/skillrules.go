// Package skillrules checks the rules of the Skills extension that hold for servers and hosts
// alike: the fields of the front matter, the URIs of files, manifests and their limits.
package skillrules

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/internal/frontmatter"
)

const (
	// FileName is the name of the file that makes a folder a skill.
	FileName = "SKILL.md"
	// MaxFiles and MaxBytes are the limits that every host accepts (Skills extension, "Limits").
	MaxFiles = 512
	MaxBytes = 16 << 20
)

// Fields are the fields of the front matter that the extension defines.
type Fields struct {
	Name          string             `json:"name"`
	Description   string             `json:"description"`
	Compatibility *string            `json:"compatibility"`
	Metadata      map[string]*string `json:"metadata"`
}

// ParseFile returns the front matter of a SKILL.md, as a JSON object with valid fields, and the text
// after it.
func ParseFile(file []byte) (object json.RawMessage, body []byte, err error) {
	if object, body, err = frontmatter.Parse(file); err != nil {
		return nil, nil, err
	}
	_, err = CheckFields(object)
	return object, body, err
}

// CheckFields returns the fields of a front matter, or an error if one is invalid (Agent Skills,
// "Frontmatter").
func CheckFields(object json.RawMessage) (f Fields, err error) {
	if err := codec.Unmarshal(object, value.Of(&f)); err != nil {
		return Fields{}, fmt.Errorf("front matter: %w", err)
	}
	for _, name := range []string{"compatibility", "metadata"} {
		if raw, ok := codec.Member(object, name); ok && string(raw) == "null" {
			return Fields{}, fmt.Errorf("front matter: %s is null", name)
		}
	}
	for name, text := range f.Metadata {
		if text == nil {
			return Fields{}, fmt.Errorf("front matter: metadata %q is null", name)
		}
	}
	length := utf8.RuneCountInString
	switch {
	case !validName(f.Name):
		return Fields{}, fmt.Errorf("front matter: name %q, want 1 to 64 characters of a-z, 0-9 and single hyphens between them", f.Name)
	case length(f.Description) < 1 || length(f.Description) > 1024:
		return Fields{}, fmt.Errorf("front matter: description of %d characters, want 1 to 1024", length(f.Description))
	case f.Compatibility != nil && (length(*f.Compatibility) < 1 || length(*f.Compatibility) > 500):
		return Fields{}, fmt.Errorf("front matter: compatibility of %d characters, want 1 to 500", length(*f.Compatibility))
	}
	return f, nil
}

func validName(name string) bool {
	for _, c := range name {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= 64 && name[0] != '-' && name[len(name)-1] != '-' && !strings.Contains(name, "--")
}

// SameFields reports whether two front matters have the same members with the same values. Numbers
// are compared as doubles, because most peers know no others.
func SameFields(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Path returns the scheme of a URI and its decoded path, such as "skill" and "acme/pdf/SKILL.md".
// The first segment of the path is the authority. Path fails if the URI has a query, a fragment, or
// a segment that another program could take for a place outside its folder.
func Path(uri string) (scheme, path string, err error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || scheme == "" || strings.ContainsAny(scheme, "/%?#") {
		return "", "", fmt.Errorf("URI %q has no scheme with ://", uri)
	}
	if strings.ContainsAny(rest, "?#") {
		return "", "", fmt.Errorf("URI %q has a query or a fragment", uri)
	}
	segments := strings.Split(rest, "/")
	for i, raw := range segments {
		segment, err := url.PathUnescape(raw)
		if err == nil {
			err = CheckSegment(segment)
		}
		if err != nil {
			return "", "", fmt.Errorf("URI %q: %w", uri, err)
		}
		segments[i] = segment
	}
	return strings.ToLower(scheme), strings.Join(segments, "/"), nil
}

// CheckSegment rejects names of files that are not safe on all systems.
func CheckSegment(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return fmt.Errorf("path segment %q", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("path segment %q is not UTF-8", name)
	case strings.ContainsAny(name, "/\\") || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("path segment %q has a separator or a control character", name)
	}
	return nil
}

// Escape returns the path of a URI for a decoded path. It escapes colons and @ too, because the
// first segment is a host name in the syntax of URIs.
func Escape(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = strings.NewReplacer(":", "%3A", "@", "%40").Replace(url.PathEscape(s))
	}
	return strings.Join(segments, "/")
}

// Folder returns the URI of the folder of a skill.
func Folder(skill string) string { return strings.TrimSuffix(skill, "/"+FileName) }

// Inside returns the decoded path of a file relative to the folder of a skill. skill is the URI of
// the SKILL.md, and file that of the file. Inside fails if the file is not in the folder.
func Inside(skill, file string) (path string, err error) {
	scheme, root, err := Path(Folder(skill))
	if err != nil {
		return "", err
	}
	other, path, err := Path(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(path, root+"/")
	if !ok || other != scheme {
		return "", fmt.Errorf("URI %q is not below %q", file, Folder(skill))
	}
	return path, nil
}

// Digest returns the digest of the contents of a file.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// LimitError reports a skill that is larger than a limit.
type LimitError struct {
	What       string // "files" or "bytes"
	Value, Max int64
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%d %s, the limit is %d", e.Value, e.What, e.Max)
}

// CheckLimits returns a [*LimitError] if a skill has too many files or bytes.
func CheckLimits(files, bytes int64) error {
	switch {
	case files > MaxFiles:
		return &LimitError{"files", files, MaxFiles}
	case bytes > MaxBytes:
		return &LimitError{"bytes", bytes, MaxBytes}
	}
	return nil
}

// Check returns the fields of an entry, or an error if the entry breaks a rule of the extension.
func Check(e *skills.Skill) (Fields, error) {
	fail := func(err error) (Fields, error) { return Fields{}, fmt.Errorf("skill %q: %w", e.URI, err) }
	fields, err := CheckFields(e.Frontmatter)
	if err != nil {
		return fail(err)
	}
	_, path, err := Path(e.URI)
	if err != nil {
		return fail(err)
	}
	if path != fields.Name+"/"+FileName && !strings.HasSuffix(path, "/"+fields.Name+"/"+FileName) {
		return fail(fmt.Errorf("the URI does not end in /%s/%s", fields.Name, FileName))
	}
	switch r := e.Resources.(type) {
	case *skills.SkillResourcesString:
		if r.Value != skills.Dynamic {
			return fail(fmt.Errorf("resources are %q, want a list or %q", r.Value, skills.Dynamic))
		}
		return fields, nil
	case *skills.SkillResourcesList:
		if err := checkFiles(e.URI, r.Value); err != nil {
			return fail(err)
		}
		return fields, nil
	}
	return fail(errors.New("resources are neither a list nor \"dynamic\""))
}

// checkFiles checks a manifest.
func checkFiles(skill string, files []skills.SkillFile) error {
	if err := CheckLimits(int64(len(files)), 0); err != nil {
		return err
	}
	total := int64(0)
	seen := map[string]bool{}
	for _, f := range files {
		path, err := Inside(skill, f.URI)
		switch digest, ok := strings.CutPrefix(f.Digest, "sha256:"); {
		case err != nil:
			return err
		case seen[path]:
			return fmt.Errorf("two entries for the file %q", path)
		case path == FileName && f.URI != skill:
			return fmt.Errorf("%s has the URI %q", FileName, f.URI)
		case !ok || len(digest) != 64 || strings.Trim(digest, "0123456789abcdef") != "":
			return fmt.Errorf("file %q: digest %q", path, f.Digest)
		case f.Size < 0:
			return fmt.Errorf("file %q: size %d", path, f.Size)
		}
		seen[path] = true
		if total += min(f.Size, MaxBytes+1); total > MaxBytes {
			return CheckLimits(0, total)
		}
	}
	if !seen[FileName] {
		return errors.New("the manifest has no " + FileName)
	}
	return nil
}

// Files returns the manifest of a checked entry by decoded path. It is nil for a dynamic skill.
func Files(e *skills.Skill) map[string]*skills.SkillFile {
	list, ok := e.Resources.(*skills.SkillResourcesList)
	if !ok {
		return nil
	}
	files := make(map[string]*skills.SkillFile, len(list.Value))
	for i := range list.Value {
		if path, err := Inside(e.URI, list.Value[i].URI); err == nil {
			files[path] = &list.Value[i]
		}
	}
	return files
}
