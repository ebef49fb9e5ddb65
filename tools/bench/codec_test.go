package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestReportTables(t *testing.T) {
	samples := []sample{
		{Contestant: "mcpwire", Median: 500, Min: 400, Allocs: 3, turns: []float64{500}, role: roleOurs},
		{Contestant: "mcpwire-parts", Median: 600, Min: 600, Allocs: 4, turns: []float64{600}, role: roleVariant},
		{Contestant: "go-sdk", Median: 5000, Min: 5000, Allocs: 18, turns: []float64{5000}, role: roleSDK},
		{Contestant: "goccy", Median: 1000, Min: 1000, Allocs: 9, turns: []float64{1000}, role: roleEngine},
		{Contestant: "sonic", Median: 750, Min: 700, Allocs: 10, turns: []float64{750}, role: roleEngine},
		{Contestant: "jx-skip", Median: 250, Min: 250, turns: []float64{250}, role: roleScan},
	}
	r := &report{Go: "go1.26.8", System: "linux/amd64", CPUs: 2, CPU: "Some CPU", Rounds: 1, Turn: "10ms", Clock: "CPU time",
		Modules: map[string]string{"sonic": "v1", "goccy": "v2"},
		Rows: []row{
			{Operation: "decode", Message: "a", Title: "an a", Size: 500, Samples: samples, Ratios: compare(samples)},
			{Operation: "decode", Message: "b", Title: "another", Size: 1500, Unseen: true, Samples: samples[:1], Ratios: compare(samples[:1])},
		}}
	want := `go1.26.8, linux/amd64, 2 CPUs (Some CPU); medians of 1 rounds of 10ms, CPU time on one CPU.
Peers: goccy v2, sonic v1.

Decode: MB/s (allocations), then the speed of mcpwire relative to others

| message | bytes |  mcpwire | mcpwire-parts |   go-sdk |   goccy |    sonic |  jx-skip | / best engine | / go-sdk | / jx-skip |
| ------- | ----: | -------: | ------------: | -------: | ------: | -------: | -------: | ------------: | -------: | --------: |
| an a    |   500 | 1000 (3) |       833 (4) | 100 (18) | 500 (9) | 667 (10) | 2000 (0) |    1.50 sonic |    10.00 |      0.50 |

Decode, messages the codec is not tuned for: MB/s (allocations), then the speed of mcpwire relative to others

| message | bytes |  mcpwire |
| ------- | ----: | -------: |
| another |  1500 | 3000 (3) |
`
	if got := r.markdown(false, false); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := r.markdown(true, false); !strings.Contains(got, "the fastest of 1 rounds") || !strings.Contains(got, "| 1250 (3) |") {
		t.Errorf("the fastest turns: got\n%s", got)
	}
}

func TestCodecPrintsTablesOrJSON(t *testing.T) {
	args := []string{"-rounds", "2", "-turn", "1ms", "-filter", "^(de|en)code/(task|tools-call)/", "-variants"}
	var table, text bytes.Buffer
	if err := runCodec(args, &table, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), "| tools/call "); got != 2 {
		t.Errorf("%d rows for tools/call in\n%s", got, &table)
	}
	if err := runCodec(append(args, "-json"), &text, io.Discard); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, c := range contestants() {
		if c.module != "" && r.Modules[c.name] == "" {
			t.Errorf("no version of %s", c.name) // tables show the versions
		}
		if s := r.Rows[0].sample(c.name); s == nil && c.role != roleVariant || s != nil && (s.Median <= 0 || s.Min > s.Median) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	if v := r.Rows[0].versus("go-sdk"); r.Rows[0].Message != "tools-call" || v == nil || v.Times <= 0 {
		t.Errorf("%s against go-sdk: %+v", r.Rows[0].Message, v)
	}
}

func TestCodecRejectsInvalidFlags(t *testing.T) {
	for _, args := range [][]string{{"-filter", "("}, {"-rounds", "0"}, {"-turn", "0s"}, {"more"}, {"-none"}} {
		if err := runCodec(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
