package proxy

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestEditTextKeepsAllOtherBytes(t *testing.T) {
	for _, tt := range []struct{ object, path, want string }{
		{`{"a": 1.0 , "name" : "x" ,"z":[]}`, "name", `{"a": 1.0 , "name" : "<x>" ,"z":[]}`},
		{`{"name":"\u0078"}`, "name", `{"name":"<x>"}`},
		{`{"m":{"n":{"id":"x","id2":"x"}}}`, "m n id", `{"m":{"n":{"id":"<x>","id2":"x"}}}`},
		{`{"other":{"id":"x"}}`, "m id", `{"other":{"id":"x"}}`},
		{`{"name":7}`, "name", `{"name":7}`},
		{`{"m":[1]}`, "m id", `{"m":[1]}`},
		{`[]`, "name", `[]`},
		{``, "name", ``},
	} {
		before := strings.Clone(tt.object)
		got := editText(json.RawMessage(tt.object), func(s string) string { return "<" + s + ">" }, strings.Fields(tt.path)...)
		if string(got) != tt.want {
			t.Errorf("%s at %s: got %s, want %s", tt.object, tt.path, got, tt.want)
		}
		if before != tt.object {
			t.Errorf("%s was modified", before)
		}
	}
}

func TestMembersAlikeAreRemoved(t *testing.T) {
	for _, tt := range []struct{ object, want string }{
		{`{"taskId":1 , "x":2}`, `{"taskId":1 , "x":2}`},
		{`{"TASKID":0,"taskId":1,"task_id":2,"t-a_sKiD":3,"ta\u017fkid":4,"taskIds":5}`, `{"taskId":1,"taskIds":5}`},
		{`{"meta":1}`, `{}`},
		{`[]`, `[]`},
		{`{"x"`, `{"x"`},
		{``, ``},
	} {
		if got := withoutAlike(json.RawMessage(tt.object), "taskId", "_meta"); string(got) != tt.want {
			t.Errorf("%s: got %s, want %s", tt.object, got, tt.want)
		}
	}
}

func TestMergeObjects(t *testing.T) {
	for _, tt := range [][3]string{
		{`{"a":1}`, `{"b":2,"a":3}`, `{"b":2,"a":1}`},
		{``, `{"b":2}`, `{"b":2}`},
		{`{"a":1}`, ``, `{"a":1}`},
	} {
		if got := mergeObjects(json.RawMessage(tt[0]), json.RawMessage(tt[1])); string(got) != tt[2] {
			t.Errorf("%s and %s: got %s, want %s", tt[0], tt[1], got, tt[2])
		}
	}
}
