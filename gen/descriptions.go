package gen

import (
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// descriptions documents a package with the prose of its own schemas.
type descriptions []*load.Document

func (d descriptions) find(rev, def string) *load.Schema {
	for _, doc := range d {
		if doc.Revision == rev {
			return doc.Defs[def]
		}
	}
	return nil
}

func (d descriptions) Definition(rev, name string) string {
	if s := d.find(rev, name); s != nil && s.Description != "" {
		return name + ": " + s.Description
	}
	return ""
}

// Field returns the description at path, such as "tasks.requests" or "items.anyOf[].title".
func (d descriptions) Field(rev, def, path string) string {
	s := d.find(rev, def)
	for s != nil && path != "" {
		name := path
		switch i := strings.IndexAny(path, ".[{"); {
		case strings.HasPrefix(path, "[]"):
			s, path = s.Items, strings.TrimPrefix(path[2:], ".")
			continue
		case strings.HasPrefix(path, "{}"):
			s, path = s.Additional, strings.TrimPrefix(path[2:], ".")
			continue
		case property(s, path) != nil: // names may have dots in them
			path = ""
		case i < 0:
			path = ""
		default:
			name, path = path[:i], strings.TrimPrefix(path[i:], ".")
		}
		s = property(s, name)
	}
	if s == nil || s.Description == "" {
		return ""
	}
	return ": " + s.Description
}

// property returns the schema of the member called name in s or in the schemas that s combines, or
// nil.
func property(s *load.Schema, name string) *load.Schema {
	if p := s.Property(name); p != nil {
		return p
	}
	for _, list := range [][]*load.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, sub := range list {
			if p := property(sub, name); p != nil {
				return p
			}
		}
	}
	return nil
}

func (d descriptions) Value(rev, def, path, value string) string { return "" }
