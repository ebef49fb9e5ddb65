package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// FuzzRequestState continues a call with a state that the client has made up, and with states that
// have any content although they are sealed with the key of the server. The server answers with a
// valid message, and calls no handler for the former.
func FuzzRequestState(f *testing.F) {
	secret := bytes.Repeat([]byte("k"), rerun.MinKey)
	keys := rerun.NewKeys(secret)
	var log bytes.Buffer
	s := server.New("test", "1", &server.Options{
		Shared: server.Shared{StateKeys: [][]byte{secret}}, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	calls := 0
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		calls++
		step, err := server.Step(ctx, c, "s", func(context.Context) (map[string]int, error) { return map[string]int{"n": 1}, nil })
		if err != nil {
			return "", err
		}
		name, err := askName(ctx, c, "Who?")
		if err != nil || step["n"] != 1 {
			return "", err
		}
		_, err = c.Roots(ctx)
		return name, err
	})
	c := connectRounds(f, s)
	of := &rerun.Context{Method: "tools/call", Name: "do", Arguments: json.RawMessage(`{}`)}
	if result, failed := c.send("tools/call", do, nil); failed != nil || part(string(result), "resultType") != `"input_required"` {
		f.Fatalf("got %s, %v", result, failed)
	} else {
		f.Add("", 1, byte(rerun.KindStep), "s", 1, `{"n":1}`, false, part(string(result), "inputRequests"), "elicitation/create", `{"x":{"action":"cancel"}}`)
	}
	f.Add("x", 1, byte(rerun.KindStep), "s", 1, `{"n":1}`, true, "x", "elicitation/create", `{"x":{"action":"accept","content":{"name":"Ann"}}}`)
	f.Add("AQ", -1, byte(9), "s", -1, `{`, false, "x", "roots/list", `{"x":{"roots":[]}}`)
	f.Add("", 1<<40, byte(rerun.KindInput), rerun.InputKey("roots/list", nil), 1, "\xff", false, "\xff", "ping", `{"\xff":7}`)
	f.Fuzz(func(t *testing.T, made string, round int, kind byte, key string, occurrence int, result string, failed bool, name, method, responses string) {
		if codec.Valid([]byte(responses)) != nil {
			return // the request is not one, even if only because a member name appears twice
		}
		c.t = t
		log.Reset()
		send := func(state string) *jsonrpc.Error {
			text, err := codec.Marshal(codec.StringScalar(state))
			if err != nil {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams} // not UTF-8
			}
			answer, fault := c.send("tools/call", do, map[string]json.RawMessage{"requestState": text, "inputResponses": json.RawMessage(responses)})
			if fault == nil && codec.Valid(answer) != nil {
				t.Errorf("got %q", answer)
			}
			return fault
		}
		before := calls
		if fault := send(made); fault == nil || fault.Code != jsonrpc.CodeInvalidParams || calls > before {
			t.Errorf("the state %q is accepted: %v", made, fault)
		}
		id := rerun.ID{Kind: rerun.Kind(kind), Key: key, Occurrence: occurrence}
		send(keys.SealState(of, &rerun.State{
			Call: made, Round: round, Expires: time.Now().Add(time.Hour),
			Entries: []rerun.Entry{{ID: id, Label: method, Result: json.RawMessage(result), Failed: failed}},
			Asked:   []rerun.Asked{{ID: id, Label: made, Method: method, Name: name}, {ID: id, Method: method, Name: name}},
		}))
		if bytes.Contains(log.Bytes(), []byte("panicked")) || bytes.Contains(log.Bytes(), []byte("not encoded")) {
			t.Errorf("logged %s", log.Bytes())
		}
	})
}
