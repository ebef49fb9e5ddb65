// Package schema holds the protocol's schemas, one folder per revision, and the
// documentation of their definitions.
//
// A schema here is the published one without its prose: every name, type, required list, const,
// enum, default and bound, in canonical form: with sorted keys, indented by two. The file docs.md
// documents the definitions and fields in our own sentences, once for all revisions. [ReadDocs]
// reads it.
//
// Words used throughout:
//   - A revision is a folder's name: a protocol revision such as 2025-11-25, or an
//     extension such as ext-tasks.
//   - A definition is an entry of the schema's $defs (definitions in the older drafts).
//   - A field is a property, named by its path in the definition:
//     tasks.requests.tools.call for nested objects, items[].title for the members of a
//     list's elements, content{}.text for those of a map's values. The members of a
//     union's variants stand under the union's own path. A $ref is not entered: the
//     fields behind it belong to the definition that it names.
//   - A value is one that an enum or a const admits at a path.
package schema

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
)

// extensionPrefix starts the folder name of every extension; all other folders are
// protocol revisions.
const extensionPrefix = "ext-"

// embedded is read only: an embed.FS cannot be changed.
//
//go:embed docs.md */schema.json
var embedded embed.FS

// Embedded returns the schema folder as it was when the program was built: docs.md and
// REVISION/schema.json.
func Embedded() fs.FS { return embedded }

// Revisions returns the embedded protocol revisions, oldest first: their names are dates.
func Revisions() []string {
	return folders(func(name string) bool { return !strings.HasPrefix(name, extensionPrefix) })
}

// Extensions returns the names of the embedded extensions in order, such as ext-tasks.
func Extensions() []string {
	return folders(func(name string) bool { return strings.HasPrefix(name, extensionPrefix) })
}

func folders(keep func(name string) bool) []string {
	entries, err := embedded.ReadDir(".")
	if err != nil {
		panic(err) // an embed.FS always has its root
	}
	var names []string
	for _, e := range entries { // ReadDir sorts by name
		if e.IsDir() && keep(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

// Read returns the embedded schema of a revision or an extension, in canonical form. If there
// is no such schema, the error wraps [fs.ErrNotExist] and lists those that exist.
func Read(rev string) ([]byte, error) {
	src, err := embedded.ReadFile(path.Join(rev, "schema.json"))
	if err != nil {
		known := strings.Join(append(Revisions(), Extensions()...), ", ")
		return nil, fmt.Errorf("no schema for revision %q (there are %s): %w", rev, known, fs.ErrNotExist)
	}
	return src, nil
}

// ReadDocs returns the parsed docs.md. It parses anew on each call; callers keep the result.
func ReadDocs() (*schemadocs.Docs, error) {
	src, err := embedded.ReadFile("docs.md")
	if err != nil {
		return nil, err
	}
	docs, err := schemadocs.ParseDocs(src)
	if err != nil {
		return nil, fmt.Errorf("docs.md:%w", err)
	}
	return docs, nil
}
