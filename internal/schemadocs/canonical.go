package schemadocs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Canonical returns the schema src as it is kept in this folder:
//   - without prose: the keywords title, description, $comment and examples are left out
//     wherever they are keywords (a property of such a name stays);
//   - with the members of every object sorted by name, byte by byte, and every list in
//     the order in which it was published;
//   - indented by two spaces, with a newline at the end; numbers keep their text.
//
// The result of Canonical is its own canonical form. Errors are of type [*Error]: src is
// not JSON, repeats a name, has a keyword that is not known here, or a keyword's value is
// not of the kind that the keyword takes.
func Canonical(src []byte) ([]byte, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	if err := strip(root, ""); err != nil {
		err.Line, err.Column = position(src, locate(src, err.Pointer))
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out) // sorts the keys of maps and ends with a newline
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// strip deletes the prose from the schema v, which stands at pointer, and checks every
// keyword on the way. The error has a pointer but no position yet.
func strip(v any, pointer string) *Error {
	if _, ok := v.(bool); ok {
		return nil
	}
	s, ok := v.(map[string]any)
	if !ok {
		return &Error{Pointer: pointer, Err: errors.New("a schema is an object or a boolean")}
	}
	for _, keyword := range sortedKeys(s) {
		at := pointer + "/" + jsonedit.EscapeToken(keyword)
		kind := kindOf(keyword)
		switch kind {
		case unknown:
			return &Error{Pointer: at, Err: fmt.Errorf("unknown keyword %q: say in internal/schemadocs/keywords.go what it is", keyword)}
		case prose:
			delete(s, keyword)
			continue
		case plain:
			continue
		}
		switch v := s[keyword].(type) {
		case map[string]any:
			switch kind {
			case oneSchema, oneOrList:
				if err := strip(v, at); err != nil {
					return err
				}
				continue
			case namedSchemas:
				for _, name := range sortedKeys(v) {
					if err := strip(v[name], at+"/"+jsonedit.EscapeToken(name)); err != nil {
						return err
					}
				}
				continue
			}
		case []any:
			if kind == schemaList || kind == oneOrList {
				for i, item := range v {
					if err := strip(item, at+"/"+strconv.Itoa(i)); err != nil {
						return err
					}
				}
				continue
			}
		case bool:
			if kind == oneSchema || kind == oneOrList {
				continue
			}
		}
		return &Error{Pointer: at, Err: fmt.Errorf("%s takes %s", keyword, kind)}
	}
	return nil
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
