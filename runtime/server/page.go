package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"

	"github.com/mcpwire/mcpwire/mcp"
)

// place is the start of a page in a list: the page begins after the feature with the key of the
// place. Because lists are sorted, a cursor stays valid when features are added or removed, and in
// any process with the same features (MCP pagination).
type place struct {
	list   string // the method of the list
	key    string // of the last feature on the previous page
	source string // of the template whose list callback is called next; "" if none
	inner  string // cursor of that callback
}

// sumSize is the length of the checksum in a cursor, in bytes.
const sumSize = 16

// cursor encodes the place for the client: a checksum, and the parts with their lengths. The
// checksum of a list callback's cursor is keyed with [Shared.CursorKey], so that the callback
// receives only cursors that it returned.
func (s *Server) cursor(p place) string {
	var parts []byte
	for _, part := range []string{p.key, p.source, p.inner} {
		parts = binary.AppendUvarint(parts, uint64(len(part)))
		parts = append(parts, part...)
	}
	var key []byte
	if p.inner != "" {
		key = s.cfg.Shared.CursorKey
	}
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, p.list+"\n") // a method has no line break
	mac.Write(parts)
	return base64.RawURLEncoding.EncodeToString(append(mac.Sum(nil)[:sumSize], parts...))
}

// parsePlace parses the cursor of a request. If it is absent or empty, the place is the start of
// the list.
func (s *Server) parsePlace(list string, params *mcp.PaginatedRequestParams) (place, error) {
	p := place{list: list}
	if params == nil || params.Cursor == nil || *params.Cursor == "" {
		return p, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(*params.Cursor)
	if err != nil || len(text) < sumSize {
		return place{}, invalidParams("invalid cursor")
	}
	text = text[sumSize:]
	for _, part := range []*string{&p.key, &p.source, &p.inner} {
		length, n := binary.Uvarint(text)
		if n <= 0 || length > uint64(len(text)-n) {
			return place{}, invalidParams("invalid cursor")
		}
		text = text[n:]
		*part, text = string(text[:length]), text[length:]
	}
	if !hmac.Equal([]byte(s.cursor(p)), []byte(*params.Cursor)) {
		return place{}, invalidParams("invalid cursor")
	}
	return p, nil
}

// page returns the features of the page that params request and that are visible to a call, and the
// cursor of the next page, or nil if there is none. A cursor names only a visible feature.
func page[T feature](c *Call, x *set[T], list string, params *mcp.PaginatedRequestParams) ([]*entry[T], *string, error) {
	from, err := x.s.parsePlace(list, params)
	if err != nil {
		return nil, nil, err
	}
	entries, more, err := x.after(c, from.key, x.s.cfg.Features.PageSize)
	if !more {
		return entries, nil, err
	}
	return entries, new(x.s.cursor(place{list: list, key: entries[len(entries)-1].key})), nil
}
