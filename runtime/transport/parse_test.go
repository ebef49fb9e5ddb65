package transport_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

func TestParseUsesRecordedContentOfItsTextAlone(t *testing.T) {
	m := transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"a"}`)}
	m.SetParsed(new(jsonrpc.NewNotification("recorded", nil)))
	replaced := m
	replaced.Text = []byte(`{"jsonrpc":"2.0","method":"b"}`)
	for want, m := range map[string]transport.Message{"recorded": m, "b": replaced} {
		if got, err := m.Parse(); err != nil || got.Method != want {
			t.Errorf("method %q, %v, want %q", got.Method, err, want)
		}
	}
	replaced.Text = []byte("{")
	if _, err := replaced.Parse(); err == nil {
		t.Error("an invalid text was parsed")
	}
}
