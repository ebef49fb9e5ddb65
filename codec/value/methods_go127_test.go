//go:build go1.27

package value_test

import (
	"encoding/json/jsontext"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
)

// celsius has only the methods that encoding/json calls from Go 1.27 on.
type celsius struct{ degrees string }

func (c celsius) MarshalJSONTo(e *jsontext.Encoder) error {
	return e.WriteToken(jsontext.String(c.degrees + " <°C>"))
}

func (c *celsius) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	t, err := d.ReadToken()
	c.degrees = t.String()
	return err
}

func TestStandardMethodsAreCalled(t *testing.T) {
	type forecast struct {
		Now   celsius
		Next  *celsius
		Never *celsius
		Days  map[string]celsius
	}
	in := forecast{celsius{"1"}, &celsius{"2"}, nil, map[string]celsius{"a": {"3"}}}
	got, err := codec.Marshal(value.Of(in))
	want, wantErr := standard(in)
	if err != nil || wantErr != nil || string(got) != string(want) {
		t.Errorf("got %s, %v; want %s, %v", got, err, want, wantErr)
	}
	var out forecast
	err = codec.Unmarshal([]byte(`{"Now":"a","Next":"b","Days":{"c":"d"}}`), value.Of(&out))
	if err != nil || out.Now.degrees != "a" || out.Next == nil || out.Next.degrees != "b" || out.Days["c"].degrees != "d" {
		t.Errorf("got %+v, %v", out, err)
	}
}
