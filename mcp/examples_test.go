package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
)

// The examples in the specification decode as the type that their folder names, are valid in their
// revision, and are encoded as the same value. Messages decode with typed params and results.
func TestOfficialExamples(t *testing.T) {
	spec := os.Getenv("MCPWIRE_SPEC")
	const rev = mcp.Revision20260728
	files, err := filepath.Glob(filepath.Join(spec, string(rev), "examples", "*", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("the examples are not here: set MCPWIRE_SPEC to a folder with 2026-07-28/examples")
	}
	methods := map[string]string{} // of requests and notifications, by definition
	for name, s := range document(t, string(rev)).Defs {
		if p := s.Property("method"); p != nil {
			methods[name] = strings.Trim(string(p.Const), `"`)
		}
	}
	for _, file := range files {
		definition := filepath.Base(filepath.Dir(file))
		t.Run(definition+"/"+filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v, err := decodeExample(methods, definition, text)
			if err != nil {
				t.Fatal(err)
			}
			out, err := codec.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(mcp.Validate(rev, definition, text), mcp.Validate(rev, definition, out)); err != nil {
				t.Error(err)
			}
			if d := oracle.Diff(text, out); d != "" {
				t.Errorf("changed on the way: %s\n%s", d, out)
			}
			again, err := decodeExample(methods, definition, out)
			if err != nil {
				t.Fatal(err)
			}
			if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
				t.Errorf("no fixed point (%v):\n%s\n%s", err, out, out2)
			}
		})
	}
	t.Logf("%d examples", len(files))
}

// decodeExample decodes a value of a definition. Methods has the methods by definition.
func decodeExample(methods map[string]string, definition string, text []byte) (codec.Encoder, error) {
	v := mcp.New(definition)
	if v == nil {
		return nil, errors.New("no such definition")
	}
	err := codec.Unmarshal(text, v)
	h, _ := v.(interface{ Unwrap() any })
	if h == nil {
		return v, err
	}
	_, raw := h.Unwrap().(json.RawMessage)
	switch {
	case !raw:
		return v, err
	case bytes.Contains(text, []byte(`"jsonrpc"`)):
		m, err := mcp.DecodeRequest(text)
		if stem, ok := strings.CutSuffix(definition, "ResultResponse"); ok {
			m, err = mcp.DecodeResponse(methods[stem+"Request"], text)
		}
		switch {
		case err == nil && m.Error == nil && m.Payload == nil && (m.Params != nil || m.Result != nil):
			return nil, errors.New("the payload is raw")
		case err == nil && m.Method != methods[definition]:
			return nil, fmt.Errorf("the method is %q", m.Method)
		}
		return &m, err
	default:
		e := new(jsonrpc.Error)
		return e, codec.Unmarshal(text, e)
	}
}
