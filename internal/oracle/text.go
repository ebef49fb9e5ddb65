package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Text returns an error if text is malformed by the rules of package codec. It makes one pass over
// the text for each rule, and leaves the grammar to encoding/json.
func Text(text []byte, maxDepth int) error {
	switch {
	case !json.Valid(text):
		return errors.New("refused by encoding/json")
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

// surrogates checks that escapes of surrogates come in pairs. Backslashes occur only in strings,
// because the grammar has been checked.
func surrogates(text []byte) error {
	high := false // the previous escape was a high surrogate
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
			return fmt.Errorf("unpaired surrogate before offset %d", i+1)
		}
		high = false
	}
	return nil
}

// names checks the next value of d for duplicate names and for its nesting depth.
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
				return fmt.Errorf("duplicate name %q", name)
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
