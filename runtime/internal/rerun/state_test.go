package rerun_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func exampleState() *rerun.State {
	return &rerun.State{
		Call: "call", Version: "1.2", Round: 3, Expires: time.Unix(now.Unix()+60, 0),
		Entries: []rerun.Entry{
			{ID: rerun.ID{Kind: rerun.KindInput, Key: rerun.InputKey("a", nil), Occurrence: 1}, Label: "a", Result: json.RawMessage(`{"x": 1.50}`)},
			{ID: rerun.ID{Kind: rerun.KindStep, Key: "charge", Occurrence: 300, Branch: "1.2"}, Position: 301, Result: json.RawMessage(`null`), Failed: true},
		},
		Asked: []rerun.Asked{{ID: rerun.ID{Kind: rerun.KindInput, Key: rerun.InputKey("b", json.RawMessage(`{}`))}, Position: 2, Label: "b?", Method: "b", Name: "b-1", Deadline: now.Add(time.Hour)}},
	}
}

func exampleContext() *rerun.Context {
	return &rerun.Context{Principal: "ann", Method: "tools/call", Name: "pay", Arguments: json.RawMessage(`{"amount":5,"to":"bob"}`)}
}

func TestStateSurvivesSeal(t *testing.T) {
	k := rerun.NewKeys()
	sealed := k.SealState(exampleContext(), exampleState())
	if strings.Contains(sealed, "charge") || strings.ContainsAny(sealed, "+/= ") {
		t.Errorf("sealed as %s", sealed)
	}
	same := exampleContext()
	same.Arguments = json.RawMessage(` { "to":"\u0062ob" , "amount":5}`)
	for _, c := range []*rerun.Context{exampleContext(), same} {
		got, err := k.OpenState(c, sealed, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(exampleState(), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if again := k.SealState(exampleContext(), exampleState()); again == sealed {
		t.Error("the same text is sealed in the same way")
	}
}

// States of the first two formats have no branches, positions and deadlines. Those of the first one
// have the version of the server, which says nothing about the handler.
func TestStatesOfEarlierFormatsAreRead(t *testing.T) {
	for format := byte(1); format <= 2; format++ {
		want := exampleState()
		for i := range want.Entries {
			want.Entries[i].Branch, want.Entries[i].Position = "", 0
		}
		for i := range want.Asked {
			want.Asked[i].Branch, want.Asked[i].Position, want.Asked[i].Deadline = "", 0, time.Time{}
		}
		text := earlierState(format, want)
		if format == 1 {
			want.Version, want.Unversioned = "", true
		}
		got, err := rerun.DecodeState(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("format %d (-want +got):\n%s", format, diff)
		}
	}
}

// earlierState encodes a state in one of the first two formats.
func earlierState(format byte, s *rerun.State) []byte {
	dst := []byte{format}
	number := func(n int) { dst = binary.AppendUvarint(dst, uint64(n)) }
	text := func(s string) { number(len(s)); dst = append(dst, s...) }
	id := func(id rerun.ID) { dst = append(dst, byte(id.Kind)); text(id.Key); number(id.Occurrence) }
	text(s.Call)
	text(s.Version)
	number(s.Round)
	number(int(s.Expires.Unix()))
	number(len(s.Entries))
	for _, e := range s.Entries {
		id(e.ID)
		dst = append(dst, map[bool]byte{true: 1}[e.Failed])
		text(e.Label)
		text(string(e.Result))
	}
	number(len(s.Asked))
	for _, a := range s.Asked {
		id(a.ID)
		text(a.Label)
		text(a.Method)
		text(a.Name)
	}
	return dst
}

func TestTextOfEveryLengthIsSealed(t *testing.T) {
	k := rerun.NewKeys()
	for n := range 1500 {
		s, text := exampleState(), strings.Repeat("x", n)
		s.Version = text
		got, err := k.OpenState(exampleContext(), k.SealState(exampleContext(), s), now)
		if err != nil || !cmp.Equal(got, s) {
			t.Fatalf("%d bytes more: got %v, %v", n, got, err)
		}
		if got, err := k.Open([]byte("c"), k.Seal([]byte("c"), []byte(text))); err != nil || string(got) != text {
			t.Fatalf("%d bytes: got %s, %v", n, got, err)
		}
	}
}

// Proves M-MRTR-09, M-MRTR-10.
func TestStateOpensOnlyWhereItBelongs(t *testing.T) {
	k := rerun.NewKeys()
	sealed := k.SealState(exampleContext(), exampleState())
	for name, change := range map[string]func(c *rerun.Context){
		"principal": func(c *rerun.Context) { c.Principal = "eve" },
		"method":    func(c *rerun.Context) { c.Method = "prompts/get" },
		"name":      func(c *rerun.Context) { c.Name = "pay2" },
		"shifted":   func(c *rerun.Context) { c.Principal, c.Method = "anntools", "/call" },
		"value":     func(c *rerun.Context) { c.Arguments = json.RawMessage(`{"amount":6,"to":"bob"}`) },
		"member":    func(c *rerun.Context) { c.Arguments = json.RawMessage(`{"amount":5,"for":"bob"}`) },
		"more":      func(c *rerun.Context) { c.Arguments = json.RawMessage(`{"amount":5,"to":"bob","_meta":1}`) },
		"type":      func(c *rerun.Context) { c.Arguments = json.RawMessage(`{"amount":"5","to":"bob"}`) },
		"none":      func(c *rerun.Context) { c.Arguments = nil },
	} {
		c := exampleContext()
		change(c)
		if _, err := k.OpenState(c, sealed, now); err != rerun.ErrSeal {
			t.Errorf("other %s: got %v, want ErrSeal", name, err)
		}
	}
	if _, err := k.OpenState(exampleContext(), sealed, now.Add(time.Minute)); err != rerun.ErrExpired {
		t.Errorf("later: got %v, want ErrExpired", err)
	}
	if _, err := k.Open([]byte("state"), sealed); err != rerun.ErrSeal {
		t.Errorf("as another text: got %v, want ErrSeal", err)
	}
	if _, err := rerun.NewKeys().OpenState(exampleContext(), sealed, now); err != rerun.ErrKey {
		t.Errorf("with other keys: got %v, want ErrKey", err)
	}
}

func TestEveryChangeOfSealedTextIsFound(t *testing.T) {
	k := rerun.NewKeys()
	sealed := k.SealState(exampleContext(), exampleState())
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1 << bit
			if _, err := k.OpenState(exampleContext(), base64.RawURLEncoding.EncodeToString(changed), now); err != rerun.ErrSeal && err != rerun.ErrKey {
				t.Fatalf("bit %d of byte %d: got %v", bit, i, err)
			}
		}
	}
	for n := range sealed {
		if _, err := k.OpenState(exampleContext(), sealed[:n], now); err == nil {
			t.Fatalf("the first %d bytes are accepted", n)
		}
	}
	for _, more := range []string{"A", "-TAMPERED", "=", "\n", "é"} {
		if _, err := k.OpenState(exampleContext(), sealed+more, now); err != rerun.ErrSeal {
			t.Errorf("with %q added: got %v, want ErrSeal", more, err)
		}
	}
}

func TestKeysAreReplaced(t *testing.T) {
	secrets := [][]byte{bytes.Repeat([]byte{1}, rerun.MinKey), bytes.Repeat([]byte{2}, rerun.MinKey)}
	older, both, newer := rerun.NewKeys(secrets[0]), rerun.NewKeys(secrets[1], secrets[0]), rerun.NewKeys(secrets[1])
	c := exampleContext()
	for _, tt := range []struct {
		name       string
		seal, open *rerun.Keys
		want       error
	}{
		{"old text, both keys", older, both, nil},
		{"new text, both keys", both, both, nil},
		{"new text, new key", both, newer, nil},
		{"new text, old key", both, older, rerun.ErrKey},
		{"old text, new key", older, newer, rerun.ErrKey},
	} {
		if _, err := tt.open.OpenState(c, tt.seal.SealState(c, exampleState()), now); err != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
}

// FuzzState checks that no text opens but those that were sealed, and that a decoded state can be
// encoded again.
func FuzzState(f *testing.F) {
	k := rerun.NewKeys(make([]byte, rerun.MinKey))
	c := exampleContext()
	f.Add([]byte(k.SealState(c, exampleState())), exampleState().Append(nil))
	f.Add([]byte(nil), []byte{1})
	f.Add([]byte(nil), []byte("\x01\x04call\x031.2\x00\x00\x00\x00"))
	f.Add([]byte(k.SealState(&rerun.Context{}, exampleState())), []byte{1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, sealed, text []byte) {
		if s, err := k.OpenState(c, string(sealed), now); err == nil && !cmp.Equal(s, exampleState()) {
			t.Fatalf("%q opens", sealed)
		}
		s, err := rerun.DecodeState(text)
		if err != nil {
			return
		}
		if len(s.Entries)+len(s.Asked) > len(text) {
			t.Errorf("%d entries from %d bytes", len(s.Entries)+len(s.Asked), len(text))
		}
		again, err := rerun.DecodeState(s.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		s.Unversioned = false // the format in which it is encoded again has a version
		if diff := cmp.Diff(s, again); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}

// FuzzCanonical checks that the canonical form of arguments does not depend on how they are
// written.
func FuzzCanonical(f *testing.F) {
	f.Add(`{"b":[1,"x",null,{"z":1.0,"a":{}}],"a":"\u00e9"}`)
	f.Add(`[[],[{}],""]`)
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil || !rerun.StrictJSON(text) {
			return
		}
		sorted, err := json.Marshal(v)
		if err != nil {
			return
		}
		if rerun.Canonical(text) != rerun.Canonical(string(sorted)) {
			t.Errorf("%s and %s have different forms", text, sorted)
		}
		other, _ := json.Marshal([]any{v})
		if rerun.Canonical(text) == rerun.Canonical(string(other)) {
			t.Errorf("%s and %s have the same form", text, other)
		}
	})
}

// For text that is not UTF-8, encoding/json escapes U+FFFD or does not, depending on its version.
func TestEscapeOfReplacementCharacterDoesNotChangeKey(t *testing.T) {
	key := func(params string) string { return rerun.InputKey("m", json.RawMessage(params)) }
	if key(`{"\ufffd":"\\\ufffd\\"}`) != key("{\"\ufffd\":\"\\\\\ufffd\\\\\"}") {
		t.Error("the escape changes the key")
	}
	if key(`"\\ufffd"`) == key("\"\\\\\ufffd\"") || key(`"\\ufffd"`) == key("\"\\\ufffd\"") {
		t.Error("a backslash before ufffd is taken for an escape")
	}
}

func TestDifferentParamsHaveDifferentKeys(t *testing.T) {
	texts := []string{``, `{}`, `[]`, `null`, `""`, `0`, `"0"`, `{"a":[]}`, `{"a":{}}`, `[{}]`, `[[],[]]`, `[[[]]]`, `{"a":"b"}`, `{"a":null}`, `["a","b"]`, `["ab"]`, `{"a":1,"b":2}`, `{"a":2,"b":1}`, `{"a":{"b":1}}`, `{"a":{},"b":1}`}
	var keys, forms []string
	for _, text := range texts {
		key := rerun.InputKey("m", json.RawMessage(text))
		if i := slices.Index(keys, key); i >= 0 {
			t.Errorf("%s and %s have the same key", text, texts[i])
		}
		form := rerun.Canonical(text)
		if i := slices.Index(forms, form); i >= 0 {
			t.Errorf("%s and %s have the same form", text, texts[i])
		}
		keys, forms = append(keys, key), append(forms, form)
	}
	if rerun.InputKey("m", nil) == rerun.InputKey("n", nil) {
		t.Error("methods do not matter")
	}
}
