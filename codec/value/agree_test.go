//lint:file-ignore SA5008 The tags are odd on purpose.

package value_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

type (
	octet    byte
	hidden   struct{ _ int }
	base     struct{ A int }
	nickname string
	free     interface{}
	color    int
)

func (c color) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "#%d", int(c)), nil }
func (c *color) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "#%d", (*int)(c))
	return err
}

// standard encodes v with encoding/json, without its escapes for HTML.
func standard(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Types have the JSON form of encoding/json, even if the engine has another form for them, or none.
func TestTypesHaveJSONFormOfEncodingJSON(t *testing.T) {
	for _, v := range []any{
		[]octet{1, 2}, [2]octet{1, 2}, struct{ X []octet }{[]octet{}},
		struct{ X hidden }{}, struct{ X *hidden }{&hidden{}}, []any{errors.New("x")}, hidden{},
		struct {
			L []int           `json:"l,string"`
			M map[string]int  `json:"m,string"`
			T time.Time       `json:"t,string"`
			S struct{ N int } `json:"s,string"`
			N int             `json:"n,string"`
		}{L: []int{1}, M: map[string]int{"a": 1}},
		tagged(`json:"x"`, `json:"x"`, ``),
		struct {
			X int `json:"-,"`
			Y int `json:"-"`
			Z int `json:"z,"`
		}{1, 2, 3},
		struct {
			base `json:",omitempty"`
			B    int
		}{base{1}, 2},
		struct {
			X int `json:"x,omitEmpty"`
			Z int `json:"z,other,omitempty"`
		}{},
		struct{ nickname }{"hidden"},
		struct{ Nick }{"n"},
		map[color]int{1: 2}, map[netip.Addr]int{netip.MustParseAddr("::1"): 1},
	} {
		got, err := codec.Marshal(value.Of(v))
		want, wantErr := standard(v)
		if err != nil || wantErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%T: got %s, %v; want %s, %v", v, got, err, want, wantErr)
			continue
		}
		if _, ok := v.([]any); ok {
			continue
		}
		a, b := reflect.New(reflect.TypeOf(v)), reflect.New(reflect.TypeOf(v))
		if err, wantErr := codec.Unmarshal(want, value.Of(a.Interface())), json.Unmarshal(want, b.Interface()); err != nil || wantErr != nil || !reflect.DeepEqual(a.Interface(), b.Interface()) {
			t.Errorf("%s: got %+v, %v; want %+v, %v", want, a, err, b, wantErr)
		}
	}
}

// tagged returns a struct with a field of type int for each tag. The tags are data, so that go vet
// does not report malformed ones.
func tagged(tags ...reflect.StructTag) any {
	fields := make([]reflect.StructField, len(tags))
	for i, tag := range tags {
		fields[i] = reflect.StructField{Name: string(rune('A' + i)), Type: reflect.TypeFor[int](), Tag: tag}
	}
	return reflect.New(reflect.StructOf(fields)).Elem().Interface()
}

// Nick is an exported string type for embedding.
type Nick string

// Errors also have a pointer and an offset for types that are decoded in mode lenient.
func TestFaultsInLenientModeHavePlace(t *testing.T) {
	type target struct {
		H hidden `json:"h"`
		N struct {
			L []int           `json:"l"`
			M map[string]int8 `json:"m"`
			Q int             `json:"q,string"`
		} `json:"n"`
		E error `json:"e"`
	}
	for text, want := range map[string]string{
		`{"h":{},"n":{"l":[1,"x"]}}`:        "json: /n/l/1: want integer, got string (line 1, column 21, offset 20)",
		`{"h":{},"n":{"m":{"a/b":300}}}`:    "json: /n/m/a~1b: number is out of range of Go type int8 (line 1, column 25, offset 24)",
		`{"h":{},"n":{"l":[1.0,1.5]}}`:      "json: /n/l/1: number is not an integer (line 1, column 23, offset 22)",
		`{"n":{"l":1.0},"h":{}}`:            "json: /n/l: want array, got number (line 1, column 11, offset 10)",
		`{"h":{},"n":{"q":5}}`:              "json: /n/q: want string with a number, got number (line 1, column 18, offset 17)",
		`{"h":{},"n":{"l":[1e400]},"e":{}}`: "json: /n/l/0: number is out of range of Go type int (line 1, column 19, offset 18)",
	} {
		if err := codec.Unmarshal([]byte(text), value.Of(new(target))); err == nil || err.Error() != want {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
}

// Tags that have different meanings in the engine and in encoding/json are refused.
func TestRejectsAmbiguousTags(t *testing.T) {
	for _, v := range []any{
		struct {
			X int `json:"a'b"`
		}{},
		struct {
			X int `json:"'-'"`
		}{},
		tagged(`json:"X,omitempty "`),
		struct {
			T time.Time `json:"t,format:RFC3339"`
		}{},
	} {
		if out, err := codec.Marshal(value.Of(v)); err == nil {
			t.Errorf("%T is written as %s", v, out)
		}
		if err := codec.Unmarshal([]byte(`{"X":1}`), value.Of(reflect.New(reflect.TypeOf(v)).Interface())); err == nil {
			t.Errorf("%T is read", v)
		}
	}
}

// counted counts the calls of its UnmarshalJSON.
type counted struct{ n int }

func (c *counted) UnmarshalJSON([]byte) error { c.n++; return nil }

// A number such as 1.0 in an integer field does not change how other numbers are read.
func TestDecodesIntegersInAnyNotation(t *testing.T) {
	type target struct {
		Price json.Number       `json:"price"`
		Raw   json.RawMessage   `json:"raw"`
		Any   any               `json:"any"`
		Free  free              `json:"free"`
		Frees []free            `json:"frees"`
		Float float64           `json:"float"`
		I     int               `json:"i"`
		C     shade             `json:"c"`
		U     uint64            `json:"u"`
		Keys  map[int8]*uint8   `json:"keys"`
		More  map[string][]int8 `json:"more"`
	}
	text := `{"price":12.00,"raw":{"amount":12.00,"big":1e3},"any":[2.0],"free":12345678901234567890,"frees":[1e400,{"a":3.0}],"float":-0.0,` +
		`"i":%s,"c":2.0,"u":%s,"keys":{"1":2.55e2},"more":{"x":[-1.28e2,0e99999,10e-1]}}`
	for _, u := range []struct {
		text string
		want uint64
	}{{"1e19", 1e19}, {"18446744073709551615.0", 1<<64 - 1}, {"184467440737095516150e-1", 1<<64 - 1}, {"10000000000000000000", 1e19}} {
		for _, i := range []string{"1", "1.0", "10e-1"} {
			var got target
			if err := codec.Unmarshal(fmt.Appendf(nil, text, i, u.text), value.Of(&got)); err != nil {
				t.Fatal(err)
			}
			out := fmt.Sprintf("%s %s %v %v %v %v %v %v %v %d %v", got.Price, got.Raw, got.Any, got.Free, got.Frees, got.Float, got.I, got.C, got.U == u.want, *got.Keys[1], got.More["x"])
			if want := `12.00 {"amount":12.00,"big":1e3} [2.0] 12345678901234567890 [1e400 map[a:3.0]] -0 1 2 true 255 [-128 0 1]`; out != want {
				t.Errorf("i %s, u %s:\n got %s\nwant %s", i, u.text, out, want)
			}
		}
	}
	for text, v := range map[string]any{
		`1.8446744073709551616e19`: new(uint64), `-1.0`: new(uint), `9223372036854775808.0`: new(int64), `1e99999999999999999999`: new(int64),
	} {
		if err := codec.Unmarshal([]byte(text), value.Of(v)); !errors.Is(err, value.ErrRange) {
			t.Errorf("%s as %T: %v", text, v, err)
		}
	}
	if err := codec.Unmarshal([]byte(`1.5`), value.Of(new(shade))); !errors.Is(err, jsonfault.Integer) {
		t.Error(err)
	}
	both := struct {
		C counted
		S color
	}{}
	if err := codec.Unmarshal([]byte(`{"C":1.0,"S":"#3"}`), value.Of(&both)); err != nil || both.C.n != 1 || both.S != 3 {
		t.Errorf("%+v, %v", both, err)
	}
}

// shade is an integer type without methods.
type shade uint8

// A named empty interface type is read like any.
func TestDecodesIntoNamedEmptyInterface(t *testing.T) {
	type node struct {
		V    free            `json:"v"`
		M    map[string]free `json:"m"`
		Next *node           `json:"next"`
	}
	var got node
	text := `{"v":12345678901234567890,"m":{"a":1e400,"b":null},"next":{"v":[1.50],"m":{},"next":null}}`
	if err := codec.Unmarshal([]byte(text), value.Of(&got)); err != nil {
		t.Fatal(err)
	}
	if out, err := codec.Marshal(value.Of(got)); err != nil || string(out) != text {
		t.Errorf("%s, %v", out, err)
	}
	if _, ok := got.V.(json.Number); !ok {
		t.Errorf("%T", got.V)
	}
	chosen := node{V: &base{}}
	if err := codec.Unmarshal([]byte(`{"v":{"A":3}}`), value.Of(&chosen)); err != nil || *chosen.V.(*base) != (base{3}) {
		t.Errorf("%+v, %v", chosen.V, err)
	}
}

// Random types have the same JSON form as in encoding/json. Half of them have fields with the tag
// option string, the others have named empty interface types. Package value refuses types with
// both.
func TestAgreesWithEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, i))
		typ := randomStruct(rng, 3, i%2 == 0)
		for range 5 {
			v := reflect.New(typ)
			randomize(rng, v.Elem())
			got, err := codec.Marshal(value.Of(v.Interface()))
			want, wantErr := standard(v.Interface())
			if err != nil || wantErr != nil || !bytes.Equal(got, want) {
				t.Fatalf("seed %d, type %d: %v\n got %s, %v\nwant %s, %v", seed, i, typ, got, err, want, wantErr)
			}
			a, b := reflect.New(typ), reflect.New(typ)
			err = codec.Unmarshal(want, value.Of(a.Interface()))
			d := json.NewDecoder(bytes.NewReader(want))
			d.UseNumber()
			if wantErr = d.Decode(b.Interface()); err != nil || wantErr != nil || !reflect.DeepEqual(a.Interface(), b.Interface()) {
				t.Fatalf("seed %d, type %d: %v\n of %s\n got %+v, %v\nwant %+v, %v", seed, i, typ, want, a, err, b, wantErr)
			}
		}
	}
}

var randomLeaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint64](),
	reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[[]octet](),
	reflect.TypeFor[[2]octet](), reflect.TypeFor[json.Number](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](),
	reflect.TypeFor[time.Duration](), reflect.TypeFor[any](), reflect.TypeFor[free](), reflect.TypeFor[struct{}](), reflect.TypeFor[hidden](),
	reflect.TypeFor[shade](), reflect.TypeFor[color](), reflect.TypeFor[Nick](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[error](),
}

func randomType(rng *rand.Rand, depth int, quoted bool) reflect.Type {
	if depth == 0 || rng.IntN(3) == 0 {
		leaf := randomLeaves[rng.IntN(len(randomLeaves))]
		if quoted && leaf == reflect.TypeFor[free]() {
			leaf = reflect.TypeFor[any]()
		}
		return leaf
	}
	switch rng.IntN(5) {
	case 0:
		return reflect.PointerTo(randomType(rng, depth-1, quoted))
	case 1:
		return reflect.SliceOf(randomType(rng, depth-1, quoted))
	case 2:
		return reflect.ArrayOf(rng.IntN(3), randomType(rng, depth-1, quoted))
	case 3:
		keys := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int8](), reflect.TypeFor[Nick](), reflect.TypeFor[color]()}
		return reflect.MapOf(keys[rng.IntN(len(keys))], randomType(rng, depth-1, quoted))
	}
	return randomStruct(rng, depth-1, quoted)
}

func randomStruct(rng *rand.Rand, depth int, quoted bool) reflect.Type {
	fields := make([]reflect.StructField, rng.IntN(8))
	for i := range fields {
		f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: randomType(rng, depth, quoted)}
		names := []string{"", "", f.Name, fmt.Sprintf("f%d", i), "x", "naïve", "a b", "-"}
		options := []string{"", "", "", ",omitempty", ",omitzero", ",other", ",omitempty,omitzero", ","}
		tag := names[rng.IntN(len(names))] + options[rng.IntN(len(options))]
		own := f.Type == reflect.TypeFor[json.Number]() || reflect.PointerTo(f.Type).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
		if quoted && rng.IntN(6) == 0 && f.Type.Kind() != reflect.Interface && f.Type.Kind() != reflect.Pointer && !own {
			tag += ",string"
		}
		f.Tag = reflect.StructTag(fmt.Sprintf("json:%q", tag))
		fields[i] = f
	}
	return reflect.StructOf(fields)
}

// randomize sets v to a random value. It sets no nil slices and maps, because package value and
// encoding/json write them differently.
func randomize(rng *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *json.Number:
		*p = "1.5e3"
		return
	case *json.RawMessage:
		*p = json.RawMessage(`{"x":[1.0,2]}`)
		return
	case *time.Time:
		*p = time.Unix(rng.Int64N(4e9), 0).UTC()
		return
	case *any:
		*p = []any{json.Number("1.0"), "x", map[string]any{"y": nil}}
		return
	case *free:
		*p = []any{"x", true}
		return
	case *netip.Addr:
		*p = netip.AddrFrom4([4]byte{1, 2, 3, byte(rng.IntN(256))})
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int64:
		v.SetInt(rng.Int64() >> rng.IntN(64))
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.SetUint(rng.Uint64() >> rng.IntN(64))
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, -1.5, 1e21, 1e-7, rng.NormFloat64()}[rng.IntN(6)])
	case reflect.String:
		v.SetString([]string{"", "a", "é\n", "long enough to be more than a word", "<&>", "null"}[rng.IntN(6)])
	case reflect.Pointer:
		if rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(rng, v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			randomize(rng, v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rng.IntN(4) {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			randomize(rng, key)
			randomize(rng, elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				randomize(rng, v.Field(i))
			}
		}
	}
}

// A float32 is rounded once. These numbers are a little more than halfway between two of them. As a
// float64, they are halfway.
func TestDecodesFloat32WithoutDoubleRounding(t *testing.T) {
	type small float32
	const text, want = `1.000000059604644775390625000000001`, 1.0000001
	var got struct {
		Plain  float32            `json:"plain"`
		Quoted float32            `json:"quoted,string"`
		List   []float32          `json:"list"`
		Map    map[string]float32 `json:"map"`
		Target any                `json:"target"`
	}
	got.Target = new(float32)
	in := `{"plain": ` + text + `,"quoted":"` + text + `","list":[1, ` + text + `],"map":{"a":` + text + `},"target":` + text + `}`
	if err := codec.Unmarshal([]byte(in), value.Of(&got)); err != nil {
		t.Fatal(err)
	}
	var named []small
	if err := codec.Unmarshal([]byte(`[`+text+`]`), value.Of(&named)); err != nil {
		t.Fatal(err)
	}
	for i, f := range []float32{got.Plain, float32(named[0]), got.Quoted, got.List[1], got.Map["a"], *got.Target.(*float32)} {
		if f != want {
			t.Errorf("value %d is %v", i, f)
		}
	}
}

// Numbers are the float32 that [strconv.ParseFloat] returns, wherever they are: near the points
// halfway between two float32, of any length and notation, and beyond the normal ones.
func TestDecodesNearestFloat32(t *testing.T) {
	type small float32
	random := rand.New(rand.NewPCG(1, 2))
	check := func(text string) {
		n, err := strconv.ParseFloat(text, 32)
		want := float32(n)
		var list []float32
		var named []small
		var array [1]float32
		var item struct {
			Name  string  `json:"name"`
			Value float32 `json:"value"`
		}
		member := `{"name":"1.000000059604644775390625000000001\\\"","value":` + text + `}`
		for in, v := range map[string]any{"[" + text + "]": &list, " [\n" + text + "\t]": &named, "[ " + text + " ] ": &array, member: &item} {
			if got := codec.Unmarshal([]byte(in), value.Of(v)); (got == nil) != (err == nil) || got != nil && !errors.Is(got, value.ErrRange) {
				t.Fatalf("%T: %s: got %v, want %v", v, text, got, err)
			}
		}
		if err == nil && (list[0] != want || named[0] != small(want) || array[0] != want || item.Value != want) {
			t.Fatalf("%s: got %v, %v, %v and %v, want %v", text, list, named, array, item.Value, want)
		}
	}
	for range 1500 {
		below := math.Float32frombits(random.Uint32() & math.MaxInt32)
		if random.IntN(2) == 0 { // one that is usual in embeddings
			below = float32(random.ExpFloat64())
		}
		if below > math.MaxFloat32 || below != below {
			continue
		}
		halfway := new(big.Float).SetFloat64(float64(below)/2 + float64(math.Nextafter32(below, math.MaxFloat32))/2)
		near := halfway.Text('f', random.IntN(160))
		for _, text := range []string{
			near, near + "e0", "-" + near, halfway.Text('e', random.IntN(120)), halfway.Text('f', 8), halfway.Text('f', 7), halfway.Text('g', 15),
			halfway.Text('e', 900), strings.Replace(halfway.Text('e', 900), "e", "0001e", 1),
		} {
			check(text)
		}
	}
	for _, text := range []string{
		"36028799166447617", "0", "-0", "0.0", "0e999", "1e-400", "1e400", "-1e39", "3.4028235e38", "3.4028235677973366e38", "3.4028235677973365e38", "340282356779733661637539395458142568447",
		"1e-45", "7.006492321624085e-46", "7.006492321624086e-46", "1.4e-45", "1.1754943e-38", "16777217", "16777219.0000000000000000000000000000000001", "562949953421311",
	} {
		check(text)
	}
}

// The largest float32 is read back: its shortest decimal is a little more than that number.
func TestDecodesLargestFloat32(t *testing.T) {
	type small float32
	for _, v := range []any{float32(math.MaxFloat32), []small{-math.MaxFloat32}, map[string]float32{"a": math.MaxFloat32}} {
		text, err := codec.Marshal(value.Of(v))
		if err != nil {
			t.Fatal(err)
		}
		got := reflect.New(reflect.TypeOf(v))
		if err := codec.Unmarshal(text, value.Of(got.Interface())); err != nil || !reflect.DeepEqual(got.Elem().Interface(), v) {
			t.Errorf("%s: got %v, %v", text, got.Elem(), err)
		}
	}
	if err := codec.Unmarshal([]byte(`3.4028236e38`), value.Of(new(float32))); !errors.Is(err, value.ErrRange) {
		t.Errorf("got %v, want ErrRange", err)
	}
}
