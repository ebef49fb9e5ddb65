package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runWith runs the command with standard input and returns its exit code and output.
func runWith(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), streams{strings.NewReader(in), &stdout, &stderr}, args)
	return code, stdout.String(), stderr.String()
}

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		in   string
		out  string
		errs string
		code int
	}{
		{
			name: "a message keeps all members",
			in:   `{"method":"tools/call","jsonrpc":"2.0","id":1.0,"params":{"name":"f","x":[1, 2],"_meta":{"progressToken":"p","a/b":null}},"y":2}`,
			out:  `{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"_meta":{"progressToken":"p","a/b":null},"name":"f","x":[1, 2]},"y":2}` + "\n",
		},
		{
			name: "responses and task results have the type of their request",
			args: []string{"-v"},
			in: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","task":{}}}` + "\n" +
				`{"jsonrpc":"2.0","id":1,"result":{"task":{"createdAt":"a","lastUpdatedAt":"b","status":"working","taskId":"t","ttl":null}}}` + "\n" +
				`{"jsonrpc":"2.0","id":"1","method":"tasks/result","params":{"taskId":"t"}}` + "\n" +
				`{"jsonrpc":"2.0","id":"1","result":{"content":[]}}` + "\n" +
				`{"jsonrpc":"2.0","id":7,"result":{}}` + "\n",
			out: `*mcp.CallToolRequestParams	{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"f","task":{}}}` + "\n" +
				`*mcp.CreateTaskResult	{"jsonrpc":"2.0","id":1,"result":{"task":{"createdAt":"a","lastUpdatedAt":"b","status":"working","taskId":"t","ttl":null}}}` + "\n" +
				`*mcp.GetTaskPayloadRequestParams	{"jsonrpc":"2.0","id":"1","method":"tasks/result","params":{"taskId":"t"}}` + "\n" +
				`*mcp.CallToolResult	{"jsonrpc":"2.0","id":"1","result":{"content":[]}}` + "\n" +
				`*mcp.Result	{"jsonrpc":"2.0","id":7,"result":{}}` + "\n",
		},
		{
			name: "-method types a lone response",
			args: []string{"-v", "-method", "tasks/get"},
			in:   `{"jsonrpc":"2.0","id":7,"result":{"status":"working"}}`,
			out:  `*mcp.GetTaskResult	{"jsonrpc":"2.0","id":7,"result":{"status":"working"}}` + "\n",
		},
		{
			name: "-as reads bare values, unions by the type of their variant",
			args: []string{"-v", "-as", "ContentBlock"},
			in:   `{"type":"text","text":"a"} {"type":"smell"}`,
			out:  `*mcp.TextContent	{"type":"text","text":"a"}` + "\n" + `*mcp.Unknown	{"type":"smell"}` + "\n",
		},
		{
			name: "-as reads values of the Tasks extension",
			args: []string{"-v", "-as", "ext/tasks.Task"},
			in:   `{"taskId":"t","ttlMs":null}`,
			out:  `*tasks.Task	{"taskId":"t","ttlMs":null}` + "\n",
		},
		{
			name: "-rev reports every fault with its position",
			args: []string{"-as", "Task", "-rev", "2025-11-25"},
			in:   "\n  {\"taskId\":\"t\", \"status\":\"bogus\",\n\"createdAt\":\"a\",\"lastUpdatedAt\":\"b\",\"ttl\":1.5}",
			errs: "<stdin>:2:27: /status: \"bogus\" is not one of \"cancelled\", \"completed\", \"failed\", \"input_required\", \"working\"\n" +
				"<stdin>:3:43: /ttl: number is not an integer\n",
			code: 1,
		},
		{
			name: "-rev checks envelope, payload and method",
			args: []string{"-rev", "2024-11-05"},
			in: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}` + "\n" +
				`{"jsonrpc":"2.0","id":2,"method":"tools/call"}` + "\n" +
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"arguments":{}}}` + "\n",
			out: `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}` + "\n" +
				`{"jsonrpc":"2.0","id":2,"method":"tools/call"}` + "\n" +
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"arguments":{}}}` + "\n",
			errs: `<stdin>:1:34: /method: revision 2024-11-05 has no method "tasks/get"` + "\n" +
				`<stdin>:2:1: : required member "params" is missing` + "\n" +
				`<stdin>:3:56: /params: required member "name" is missing` + "\n",
			code: 1,
		},
		{
			name: "a malformed line does not affect others",
			in:   "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":tru}\n{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n",
			out:  `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
			errs: "<stdin>:1:39: /id: malformed literal\n",
			code: 1,
		},
		{
			name: "the fault of malformed text is at its end",
			in:   "{\"jsonrpc\":\"2.0\",\n \"id\":1 x}\n{\"id\":1,\"id\":2}\n[{\"jsonrpc\":",
			errs: "<stdin>:2:9: : syntax error: want ',' or '}', got \"x\"\n" +
				"<stdin>:3:9: /id: member name appears twice\n" +
				"<stdin>:4:13: /0/jsonrpc: text ends early\n",
			code: 1,
		},
		{
			name: "batches in 2025-03-26",
			args: []string{"-rev", "2025-03-26"},
			in:   `[{"jsonrpc":"2.0","method":"ping","id":1},{"jsonrpc":"2.0","method":"notifications/initialized"}]`,
			out:  `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]` + "\n",
		},
		{
			name: "batches in other revisions are faults",
			in:   `[{"jsonrpc":"2.0","method":"ping","id":1}]`,
			errs: "<stdin>:1:1: : batches are not allowed here\n",
			code: 1,
		},
		{
			name: "an unknown method is kept",
			in:   `{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x":1}}`,
			out:  `{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"x":1}}` + "\n",
		},
		{
			name: "an unknown method is a fault with -rev",
			args: []string{"-rev", "2025-11-25"},
			in:   `{"jsonrpc":"2.0","id":1,"method":"a/b"}`,
			out:  `{"jsonrpc":"2.0","id":1,"method":"a/b"}` + "\n",
			errs: `<stdin>:1:34: /method: revision 2025-11-25 has no method "a/b"` + "\n",
			code: 1,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, errs := runWith(t, test.in, append([]string{"decode"}, test.args...)...)
			if out != test.out {
				t.Errorf("standard output (-want +got)\n%s", cmp.Diff(test.out, out))
			}
			if errs != test.errs {
				t.Errorf("standard error (-want +got)\n%s", cmp.Diff(test.errs, errs))
			}
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}

func TestDecodeUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-as", "Nothing"}, {"-rev", "1999-01-01"}, {"-method", "no/such"}, {"-as", "Task", "-method", "ping"}, {"-nonsense"}, {"-as", "ext/tasks.Nothing"},
	} {
		if code, _, errs := runWith(t, "", append([]string{"decode"}, args...)...); code != exitUsage || errs == "" {
			t.Errorf("decode %v: exit code %d and %q, want %d and a message", args, code, errs, exitUsage)
		}
	}
	if code, _, errs := runWith(t, "", "decode", filepath.Join(t.TempDir(), "none")); code != exitFault || errs == "" {
		t.Errorf("missing file: exit code %d, want %d", code, exitFault)
	}
}

func TestGen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "out")
	code, out, errs := runWith(t, "", "gen", "-pkg", "one", "-out", dir, "2025-11-25=../../schema/2025-11-25/schema.json")
	if code != 0 || !strings.Contains(out, "145 definitions") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	src, err := os.ReadFile(filepath.Join(dir, "types.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(src, []byte("\npackage one\n")) || !bytes.Contains(src, []byte("// Task is a long-running operation")) {
		t.Error("types.go lacks the package clause or the documentation")
	}
	small, own := filepath.Join(t.TempDir(), "small.json"), filepath.Join(dir, "own.go")
	for name, text := range map[string]string{small: `{"$defs": {"T": {"type": "object"}}}`, own: "package one\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := runWith(t, "", "gen", "-pkg", "one", "-out", dir, "1="+small); code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "unions.go")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unions.go of the earlier run: %v, want it removed", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
	for _, args := range [][]string{{}, {"-pkg", "1x", "-out", dir, "a=b"}, {"-pkg", "_", "-out", dir, "a=b"}, {"-pkg", "x", "a=b"}, {"-pkg", "x", "-out", dir}, {"-pkg", "x", "-out", dir, "nothing"}} {
		if code, _, _ := runWith(t, "", append([]string{"gen"}, args...)...); code != exitUsage {
			t.Errorf("gen %v: exit code %d, want %d", args, code, exitUsage)
		}
	}
}
