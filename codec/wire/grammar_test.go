package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

func TestReadHostileTexts(t *testing.T) {
	for _, c := range hostile.All(hostile.Texts()) {
		t.Run(c.Name, func(t *testing.T) {
			want := placeOf(c.Refusal)
			want.check(t, c.Text, codec.Valid([]byte(c.Text)))

			// Reading by tokens gives the same result.
			var v tree
			want.check(t, c.Text, codec.Unmarshal([]byte(c.Text), &v))

			// encoding/json agrees, except where package codec is stricter.
			if accepted, theirs := want.err == nil, json.Valid([]byte(c.Text)); accepted != theirs && !stricter(want.err) {
				t.Errorf("accepted: %v, by encoding/json: %v", accepted, theirs)
			}
		})
	}
}

// stricter reports whether an error is for text that encoding/json accepts.
func stricter(err error) bool {
	for _, e := range []error{jsonfault.UTF8, jsonfault.Surrogate, codec.ErrDuplicate, jsonfault.Depth, jsonfault.Size, jsonfault.StringSize} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Every prefix of a valid text ends early, unless it is itself a valid text.
func TestTruncatedTextFailsWithErrEOF(t *testing.T) {
	const text = ` {"a":[1.5e-7,-0,true,false,null,"x\n\u00e9\ud83d\ude00€"],"b":{"c":{}},"d":[[]]} `
	end := strings.LastIndexByte(text, '}') + 1
	for n := range end {
		err := codec.Valid([]byte(text[:n]))
		if strings.HasSuffix(text[:n], "\xe2") || strings.HasSuffix(text[:n], "\xe2\x82") {
			if !errors.Is(err, jsonfault.UTF8) {
				t.Errorf("%q: %v", text[:n], err)
			}
			continue
		}
		var e *codec.Error
		if !errors.As(err, &e) || !errors.Is(err, jsonfault.EOF) || e.Offset != int64(n) {
			t.Errorf("%q: %v", text[:n], err)
		}
	}
	for n := end; n <= len(text); n++ {
		if err := codec.Valid([]byte(text[:n])); err != nil {
			t.Errorf("%q: %v", text[:n], err)
		}
	}
}
