package messages

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

func TestMessageSizesMatchTable(t *testing.T) {
	sizes := map[string][2]int{ // at least, at most
		"tools-call":         {144, 144},
		"create-task-result": {427, 427},
		"task":               {249, 249},
		"tasks-list":         {12_000, 12_500},
		"tool-result":        {273, 273},
		"tool-result-text":   {99_000, 101_000},
		"tool-result-image":  {1 << 20, 1<<20 + 1000},
		"tools-list":         {93_500, 94_500},
	}
	for _, m := range All() {
		if want, ok := sizes[m.Name]; ok && (len(m.Data) < want[0] || len(m.Data) > want[1]) {
			t.Errorf("%s: %d bytes, want %d to %d", m.Name, len(m.Data), want[0], want[1])
		}
		delete(sizes, m.Name)
	}
	for name := range sizes {
		t.Errorf("missing message %s", name)
	}
}

func TestMessagesAreDeterministic(t *testing.T) {
	names := make(map[string]bool)
	again := All()
	for i, m := range All() {
		if names[m.Name] {
			t.Errorf("duplicate message %s", m.Name)
		}
		names[m.Name] = true
		if !bytes.Equal(m.Data, again[i].Data) {
			t.Errorf("%s is not always the same", m.Name)
		}
	}
}

func TestReversedAndIndentedKeepContent(t *testing.T) {
	for _, m := range All() {
		for name, f := range map[string]func([]byte) []byte{"reversed": reversed, "indented": indented} {
			if !reflect.DeepEqual(parse(t, m.Data), parse(t, f(m.Data))) {
				t.Errorf("%s of %s has other content", name, m.Name)
			}
		}
	}
	if got, want := string(reversed([]byte(`{"a":1,"b":[{"c":"x","d":null}],"e":{}}`))), `{"e":{},"b":[{"d":null,"c":"x"}],"a":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
