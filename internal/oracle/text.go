package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Text returns what makes text malformed by the rules of package codec, or nil. It takes several passes over the
// text, one for each rule, and leaves the grammar to encoding/json.
func Text(text []byte, maxDepth int) error {
	switch {
	case !json.Valid(text):
		return errors.New("encoding/json refuses it")
	case !utf8.Valid(text):
		return errors.New("not UTF-8")
	}
	if err := surrogates(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return names(d, maxDepth)
}

// surrogates checks that escapes of surrogates come in pairs. Backslashes are in strings only, since the grammar was
// checked.
func surrogates(text []byte) error {
	high := false // the last thing was the first half of a pair
	for i := 0; i < len(text); i++ {
		low := false
		if text[i] == '\\' {
			i++
			if text[i] == 'u' {
				unit, err := strconv.ParseUint(string(text[i+1:i+5]), 16, 16)
				if err != nil {
					return err
				}
				i += 4
				low = 0xDC00 <= unit && unit < 0xE000
				if 0xD800 <= unit && unit < 0xDC00 && !high {
					high = true
					continue
				}
			}
		}
		if high != low {
			return fmt.Errorf("half of a surrogate pair in front of offset %d", i+1)
		}
		high = false
	}
	return nil
}

// names checks the next value of d: that no object has a name twice, and that it is not nested too deeply.
func names(d *json.Decoder, maxDepth int) error {
	token, err := d.Token()
	open, ok := token.(json.Delim)
	if err != nil || !ok {
		return err
	}
	if maxDepth == 0 {
		return errors.New("nested too deeply")
	}
	seen := map[any]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("the name %q comes twice", name)
			}
			seen[name] = true
		}
		if err := names(d, maxDepth-1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
