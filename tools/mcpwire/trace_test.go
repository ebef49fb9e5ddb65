package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/tracefile"
)

// Package statetest writes the recordings.
func TestTraceReadsRecordingsOfOtherVersionsOfGo(t *testing.T) {
	files, err := filepath.Glob("../../internal/statetest/testdata/*/recording.ndjson")
	if err != nil || len(files) < 2 {
		t.Fatalf("recordings %q, %v, want those of two versions of Go", files, err)
	}
	for _, file := range files {
		code, out, errs := mcpwire(t, "trace", file)
		const want = "  0.000 s  client ──▶ server  tools/call: <&>\\u2028\ufffd\n" +
			"  0.000 s  client ──▶ server  result\n" +
			"  0.000 s  client ──▶ server  result: not understood: json: /result/content/0/text: escape of half a surrogate pair (line 1, column 79, offset 78)\n" +
			"  0.000 s  client ──▶ server  notifications/initialized\n" +
			"  0.000 s  client ──▶ server  not understood: json: malformed literal (line 1, column 1, offset 0)\n" +
			"  0.000 s  client ──▶ server  not understood: json: malformed literal (line 1, column 1, offset 0)\n"
		if diff := cmp.Diff(want, out); code != exitOK || errs != "" || diff != "" {
			t.Errorf("%s: exit %d, errors %q, output (-want +got):\n%s", file, code, errs, diff)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		var e tracefile.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		const message = "{\"jsonrpc\":\"2.0\",\"id\":\"<&>\u2028\",\"method\":\"tools/call\"," +
			"\"params\":{\"arguments\":{\"b\":1e999,\"a\":\"\\/\\u2029\"},\"name\":\"<&>\u2028\ufffd\"}}\n"
		code, out, errs = runWith(t, string(e.Line())+"\n", "decode")
		if diff := cmp.Diff(message, out); code != exitOK || errs != "" || diff != "" {
			t.Errorf("decode: exit %d, errors %q, output (-want +got):\n%s", code, errs, diff)
		}
	}
}
