package server

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/mcpwire/mcpwire/mcp"
)

// place is where in a list a page begins: behind what it names. As lists are sorted, a cursor is good whatever comes
// and goes, and in any process that has the same features (MCP pagination).
type place struct {
	list string // the method that the cursor is for

	// key is that of the last feature on the page before, and source that of the template, if any, whose list
	// callback comes next, with its own cursor.
	key    string
	source string
	inner  string
}

// cursor returns the place for the client: the parts and a checksum over them, which tells a cursor from nonsense.
func (p place) cursor() string {
	text := p.text()
	sum := sha256.Sum256([]byte(p.list + "\x00" + text))
	return base64.RawURLEncoding.EncodeToString(append(sum[:8:8], text...))
}

func (p place) text() string { return p.key + "\x00" + p.source + "\x00" + p.inner }

// parsePlace reads the cursor of a request. None, and an empty one, is the start.
func parsePlace(list string, params *mcp.PaginatedRequestParams) (place, error) {
	if params == nil || params.Cursor == nil || *params.Cursor == "" {
		return place{list: list}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(*params.Cursor)
	if err == nil && len(text) > 8 {
		parts := strings.SplitN(string(text[8:]), "\x00", 3)
		if len(parts) == 3 {
			p := place{list, parts[0], parts[1], parts[2]}
			if p.cursor() == *params.Cursor {
				return p, nil
			}
		}
	}
	return place{}, invalidParams("invalid cursor")
}

// page returns the features of the page that params ask for, and the cursor of the next one, nil if there is none.
func page[T comparable](x *set[T], list string, params *mcp.PaginatedRequestParams) ([]*entry[T], *string, error) {
	from, err := parsePlace(list, params)
	if err != nil {
		return nil, nil, err
	}
	entries, more := x.after(from.key, x.s.cfg.PageSize)
	if !more {
		return entries, nil, nil
	}
	return entries, new(place{list: list, key: entries[len(entries)-1].key}.cursor()), nil
}
