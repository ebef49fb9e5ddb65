package main

import (
	"bytes"
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
	for _, m := range messages() {
		if want, ok := sizes[m.name]; ok && (len(m.data) < want[0] || len(m.data) > want[1]) {
			t.Errorf("%s: %d bytes, want %d to %d", m.name, len(m.data), want[0], want[1])
		}
		delete(sizes, m.name)
	}
	for name := range sizes {
		t.Errorf("missing message %s", name)
	}
}

func TestMessagesAreDeterministic(t *testing.T) {
	names := make(map[string]bool)
	again := messages()
	for i, m := range messages() {
		if names[m.name] {
			t.Errorf("duplicate message %s", m.name)
		}
		names[m.name] = true
		if !bytes.Equal(m.data, again[i].data) {
			t.Errorf("%s is not always the same", m.name)
		}
	}
}

func TestReversedAndIndentedKeepContent(t *testing.T) {
	for _, m := range messages() {
		for name, f := range map[string]func([]byte) []byte{"reversed": reversed, "indented": indented} {
			found := make(map[string]bool)
			if differ(found, "", parse(t, m.data), parse(t, f(m.data))); len(found) > 0 {
				t.Errorf("%s of %s: %v", name, m.name, found)
			}
		}
	}
	if got, want := string(reversed([]byte(`{"a":1,"b":[{"c":"x","d":null}],"e":{}}`))), `{"e":{},"b":[{"d":null,"c":"x"}],"a":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
