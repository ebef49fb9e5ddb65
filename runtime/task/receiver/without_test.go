package receiver

import "testing"

// The member is removed with its comma. All other bytes are kept.
func TestWithoutRemovesMember(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"task":{}}`, `{}`},
		{`{"name":"t","task":{"ttl":1}}`, `{"name":"t"}`},
		{`{"task":{"ttl":1},"name":"t"}`, `{"name":"t"}`},
		{`{"a":1e2,"task":null,"b":[ ]}`, `{"a":1e2,"b":[ ]}`},
		{"{ \"a\" : 1 ,\n \"task\" : {} }", `{ "a" : 1 }`},
		{`{"a":{"task":1}}`, `{"a":{"task":1}}`},
		{`{"\u0074ask":1,"b":2}`, `{"b":2}`},
		{`{}`, `{}`},
	} {
		got, err := without([]byte(tt.in), "task")
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
	for _, in := range []string{``, `[]`, `{"task":1`, `{"task":}`, `{"a":1,"task":1}x`} {
		if got, err := without([]byte(in), "task"); err == nil {
			t.Errorf("without(%s) = %s, want an error", in, got)
		}
	}
}
