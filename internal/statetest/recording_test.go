package statetest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/internal/tracefile"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/tap"
)

// sent are the messages of the recording.
var sent = []string{
	`{"jsonrpc":"2.0","id":"<&>\u2028","method":"tools/call","params":{"name":"<&>` + "\u2028\ufffd" + `","arguments":{"b":1e999,"a":"\/\u2029"}}}`,
	`{"jsonrpc":"2.0","id":"<&>` + "\u2028" + `","result":{"content":[{"type":"text","text":"` + "\u2028" + `<&>"}],"a":12345678901234567890}}`,
	`{"jsonrpc":"2.0","id":"<&>` + "\u2028" + `","result":{"content":[{"type":"text","text":"` + "\u2028" + `\ud800"}],"a":1,"a":12345678901234567890}}`,
	"{ \"jsonrpc\" :\t\"2.0\",\n\"method\":\"notifications/initialized\"}",
	"no JSON: " + odd,
	"not UTF-8: \xff",
}

func writeRecording(t *testing.T, dir string) {
	file, err := os.Create(filepath.Join(dir, "recording.ndjson"))
	noError(t, err)
	defer file.Close()
	x, y := inmemory.Pair(inmemory.Options{})
	defer x.Close()
	defer y.Close()
	recorder := tap.NewRecorder(file)
	conn := recorder.Wrap(x, odd, mcp.FromClient)
	for _, text := range sent {
		noError(t, conn.Write(t.Context(), transport.Message{Text: []byte(text)}))
	}
	noError(t, recorder.Err())
}

// readRecording reads the entries. The test of the command "mcpwire trace" reads the file, too.
func readRecording(t *testing.T, dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "recording.ndjson"))
	noError(t, err)
	var got []string
	for line := range strings.Lines(string(text)) {
		var e tracefile.Entry
		noError(t, json.Unmarshal([]byte(line), &e))
		equal(t, "session", odd, e.Session)
		got = append(got, string(e.Line()))
	}
	equal(t, "messages", sent, got)
}
