package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/explain/values.md makes these statements about engines.
func TestStatementsAboutEngines(t *testing.T) {
	type names struct {
		Name string   `json:"name,omitempty"`
		Size int      `json:"size,omitempty"`
		List []string `json:"list,omitempty"`
		Any  any      `json:"any,omitempty"`
	}
	for _, c := range []struct {
		name, text string
		ok         func(v names, err error) bool
		wrong      []string // engines for which the statement does not hold
	}{
		{"an unknown member stays unknown", `{"Name":"x"}`,
			func(v names, err error) bool { return err == nil && v.Name == "" }, []string{"goccy", "sonic", "encoding-json"}},
		{"an unknown member does not overwrite another", `{"name":"x","NAME":"y"}`,
			func(v names, err error) bool { return err == nil && v.Name == "x" }, []string{"goccy", "sonic", "encoding-json"}},
		{"a letter that folds to s is not an s", `{"\u017fize":1}`,
			func(v names, err error) bool { return err == nil && v.Size == 0 }, []string{"goccy", "encoding-json"}},
		{"an integer in an interface is exact", `{"any":9007199254740993}`, func(v names, err error) bool {
			text, _ := json.Marshal(v.Any)
			return err == nil && string(text) == "9007199254740993"
		}, []string{"goccy-v2", "goccy", "json-experiment", "sonic", "encoding-json"}},
		{"an integer may be written 1.0", `{"size":1.0}`,
			func(v names, err error) bool { return err == nil && v.Size == 1 },
			[]string{"goccy-v2", "goccy", "json-experiment", "sonic", "encoding-json"}},
		{"a string is not a number", `{"size":"1"}`,
			func(v names, err error) bool { return err != nil && v.Size == 0 }, nil},
		{"an error has a JSON pointer", `{"list":["a",{}]}`, func(v names, err error) bool { return err != nil && strings.Contains(err.Error(), "/list/1") },
			[]string{"goccy", "sonic", "encoding-json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var wrong []string
			for _, e := range valueEngines() {
				var v names
				if err := e.read([]byte(c.text), &v); e.name != "check" && !c.ok(v, err) {
					wrong = append(wrong, e.name)
					t.Logf("%s: %+v, %v", e.name, v, err)
				}
			}
			if diff := cmp.Diff(c.wrong, wrong); diff != "" {
				t.Errorf("engines for which this does not hold (-want +got):\n%s", diff)
			}
		})
	}
}

// A nil slice is encoded as [] or as null.
func TestEnginesEncodeNilSlices(t *testing.T) {
	var null []string
	for _, e := range valueEngines() {
		if e.encode == nil {
			continue
		}
		out, err := e.encode(struct {
			L []int          `json:"l"`
			M map[string]int `json:"m"`
		}{})
		switch {
		case err != nil:
			t.Errorf("%s: %v", e.name, err)
		case string(out) == `{"l":null,"m":null}`:
			null = append(null, e.name)
		case string(out) != `{"l":[],"m":{}}`:
			t.Errorf("%s writes %s", e.name, out)
		}
	}
	if !slices.Equal(null, []string{"goccy", "sonic", "encoding-json"}) {
		t.Errorf("%q write null", null)
	}
}

func TestValuesPrintsTables(t *testing.T) {
	var out, progress strings.Builder
	if err := runValues([]string{"-rounds", "1", "-turn", "1us"}, &out, &progress); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| decode, after the check ", "| encode ", "| 50 structs as output ", " encoding-json |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, args := range [][]string{{"x"}, {"-rounds", "0"}, {"-turn", "-1s"}} {
		if runValues(args, &out, &progress) == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
