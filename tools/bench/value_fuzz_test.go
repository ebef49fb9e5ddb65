package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	experimentjson "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	experimentv1 "github.com/go-json-experiment/json/v1"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
)

// The types below are types that authors of tools may use, and more unusual ones.

type scalars struct {
	Bool    bool    `json:"bool"`
	Int     int     `json:"int"`
	Int8    int8    `json:"int8"`
	Int64   int64   `json:"int64,omitempty"`
	Uint    uint    `json:"uint"`
	Uint16  uint16  `json:"uint16"`
	Float   float64 `json:"float"`
	Float32 float32 `json:"float32"`
	String  string  `json:"string"`
	Level   level   `json:"level"`
	Word    word    `json:"word"`
}

type (
	level int
	word  string
)

type optionals struct {
	Bool   *bool            `json:"bool,omitempty"`
	Int    *int             `json:"int,omitempty"`
	Float  *float64         `json:"float"`
	String **string         `json:"string"`
	Struct *scalars         `json:"struct,omitempty"`
	List   *[]int           `json:"list,omitzero"`
	Map    *map[string]*int `json:"map"`
	Only   *only            `json:"only"`
}

// only is a struct of a single pointer, which the runtime stores directly in an interface.
type only struct {
	P *only `json:"p"`
}

type tree struct {
	Name  string           `json:"name"`
	Left  *tree            `json:"left,omitempty"`
	Kids  []tree           `json:"kids,omitempty"`
	Named map[string]*tree `json:"named,omitempty"`
}

type loopA struct {
	B *loopB `json:"b"`
	L []loopB
}

type loopB struct {
	A loopHolder `json:"a"`
	N int
}

type loopHolder map[string]loopA

type base struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

type middle struct {
	*base
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

// Public is embedded, also by pointer.
type Public struct {
	Seen  bool   `json:"seen"`
	Title string `json:"title"`
}

type embedded struct {
	base
	*Public
	Inner struct {
		Public
		X int `json:"x"`
	} `json:"inner"`
	Rest string
}

type embeddedDeep struct {
	embedded
	Named middleExported `json:"named"`
	Title string         `json:"Title"`
}

type middleExported struct {
	Public `json:"public"`
	Other  *Public `json:"other,omitempty"`
}

// Below has an unexported pointer behind another one, which other packages cannot set.
type Below struct {
	*base
	Depth int `json:"depth"`
}

type above struct {
	*Below
	Height int `json:"height"`
}

// alike has names that differ only in case, and one without such a counterpart.
type alike struct {
	Name   string `json:"name"`
	Upper  string `json:"Name"`
	Loud   string `json:"NAME"`
	ID     int
	Kelvin string `json:"k"`
	Dash   string `json:"-"`
	//lint:ignore U1000 decoding must leave it alone
	hidden string
}

// wide has more fields than fit into a small table.
type wide struct {
	A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V int
	Abc, Abd, Abcd, AbcdEfgh, AbcdEfgi                               string
}

type keyed struct {
	Strings  map[string]string           `json:"strings"`
	Ints     map[int]string              `json:"ints"`
	Small    map[int8]bool               `json:"small"`
	Unsigned map[uint64]int              `json:"unsigned"`
	Texts    map[netip.Addr]int          `json:"texts"`
	Own      map[shout]shout             `json:"own"`
	Deep     map[string]map[string][]int `json:"deep"`
	Structs  map[string]scalars          `json:"structs"`
	Pointers map[string]*base            `json:"pointers"`
	Words    map[word]level              `json:"words"`
	Any      map[string]any              `json:"any"`
}

type lists struct {
	Ints     []int         `json:"ints"`
	Strings  []string      `json:"strings,omitempty"`
	Bytes    []byte        `json:"bytes"`
	Nested   [][]float64   `json:"nested"`
	Structs  []base        `json:"structs"`
	Pointers []*base       `json:"pointers"`
	Pair     [2]int        `json:"pair"`
	Sum      [4]byte       `json:"sum"`
	None     [0]string     `json:"none"`
	Empty    []struct{}    `json:"empty"`
	Grid     [2][2]*string `json:"grid"`
	Any      []any         `json:"any"`
	Bools    []bool        `json:"bools"`
	Shouts   []shout       `json:"shouts"`
}

type free struct {
	Any     any             `json:"any"`
	More    any             `json:"more,omitempty"`
	Raw     json.RawMessage `json:"raw,omitempty"`
	Number  json.Number     `json:"number"`
	Maybe   *json.Number    `json:"maybe"`
	Numbers []json.Number   `json:"numbers"`
	Exact   codec.Number    `json:"exact,omitempty"`
	Time    time.Time       `json:"time"`
	When    *time.Time      `json:"when,omitempty"`
	Span    time.Duration   `json:"span"`
	Big     *big.Int        `json:"big"`
	Addr    netip.Addr      `json:"addr,omitzero"`
	Face    fmt.Stringer    `json:"face"`
}

type quoted struct {
	Int    int     `json:"int,string"`
	Uint   uint8   `json:"uint,string"`
	Float  float64 `json:"float,string"`
	Bool   bool    `json:"bool,string"`
	String string  `json:"string,string"`
	Maybe  *int    `json:"maybe,string"`
	Omit   int64   `json:"omit,omitempty,string"`
}

type protocol struct {
	Result mcp.CallToolResult  `json:"result"`
	Task   *mcp.Task           `json:"task,omitempty"`
	Tools  map[string]mcp.Tool `json:"tools,omitempty"`
	Token  mcp.ProgressToken   `json:"token,omitzero"`
	Args   json.RawMessage     `json:"args,omitempty"`
}

// shout has text methods; MarshalText has a value receiver.
type shout struct{ s string }

func (s shout) MarshalText() ([]byte, error) { return []byte(s.s + "!"), nil }

func (s *shout) UnmarshalText(text []byte) error {
	cut, ok := strings.CutSuffix(string(text), "!")
	if !ok {
		return errors.New("too quiet")
	}
	s.s = cut
	return nil
}

// pair has JSON methods; MarshalJSON has a pointer receiver.
type pair struct{ a, b int }

func (p *pair) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[ %d,\n%d]", p.a, p.b), nil }

func (p *pair) UnmarshalJSON(text []byte) error {
	var list [2]int
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	p.a, p.b = list[0], list[1]
	return nil
}

type methods struct {
	Pair    pair            `json:"pair"`
	Pointer *pair           `json:"pointer"`
	List    []pair          `json:"list"`
	Map     map[string]pair `json:"map"`
	Array   [1]pair         `json:"array"`
	Shout   shout           `json:"shout"`
	Loud    *shout          `json:"loud,omitempty"`
	Omitted pair            `json:"omitted,omitempty"`
}

// targets returns a new value of each type.
var targets = []func() any{
	func() any { return new(scalars) },
	func() any { return new(optionals) },
	func() any { return new(tree) },
	func() any { return new(loopA) },
	func() any { return new(embedded) },
	func() any { return new(embeddedDeep) },
	func() any { return new(middle) },
	func() any { return new(above) },
	func() any { return new(alike) },
	func() any { return new(wide) },
	func() any { return new(keyed) },
	func() any { return new(lists) },
	func() any { return new(free) },
	func() any { return new(quoted) },
	func() any { return new(protocol) },
	func() any { return new(methods) },
	func() any { return new(any) },
	func() any { return new(map[string]any) },
	func() any { return new([]scalars) },
	func() any { return new(map[string]*tree) },
	func() any { return new(*only) },
	func() any { return new(string) },
	func() any { return new(float64) },
	func() any { return new(float32) },
	func() any { return new(int64) },
	func() any { return new(json.Number) },
	func() any { return new([]byte) },
	func() any { return new(time.Time) },
	func() any { return new(map[shout]pair) },
	func() any { return new(struct{}) },
	func() any { return new([]map[string][]*embedded) },
}

// valueTexts are valid texts for some of the types, and invalid ones.
var valueTexts = []string{
	`{"bool":true,"int":-5,"int8":127,"int64":9223372036854775807,"uint":1,"uint16":65535,"float":1.5e3,"float32":0.1,"string":"\u00e9\n","level":3,"word":"w"}`,
	`{"int":1.0,"int8":1e2,"int64":1e19,"uint":-0,"uint16":65536,"float":1e400}`,
	`{"int8":1280e-1,"level":2.50,"float32":1e39,"float":0.1000000000000000055511151231257827}`,
	`{"bool":null,"int":null,"string":null,"word":null}`,
	`{"bool":true,"int":1,"float":null,"string":"s","struct":{"int":1,"int8":300},"list":[1,2],"map":{"a":1,"b":null},"only":{"p":{"p":null}}}`,
	`{"name":"a","left":{"name":"b","left":{"name":"c"}},"kids":[{"name":"d","kids":[]},{}],"named":{"x":{"name":"e"},"y":null}}`,
	`{"b":{"a":{"k":{"b":{"N":1},"L":[{"N":2},{"a":{}}]}}},"L":[{"N":1e0}]}`,
	`{"id":1,"name":"n","seen":true,"title":"t","inner":{"seen":false,"title":"u","x":2},"Rest":"r","kind":"k"}`,
	`{"id":1,"depth":2,"height":3}`,
	`{"named":{"public":{"seen":true},"other":{"title":"x"}},"Title":"T","title":"t"}`,
	`{"name":"a","Name":"b","NAME":"c","nAme":"d","ID":1,"id":2,"k":"e","\u212a":"f","-":"g","Dash":"h","hidden":"i","":""}`,
	`{"A":1,"B":2,"V":3,"a":4,"Abc":"x","AbcdEfgh":"y","AbcdEfgi":"z","AbcdEfg":"q","\u0041bd":"w"}`,
	`{"strings":{"a":"b"},"ints":{"1":"x","-2":"y","01":"z"},"small":{"128":true},"unsigned":{"18446744073709551615":1},"texts":{"::1":2},"own":{"a!":"b!"},"words":{"x":1}}`,
	`{"deep":{"a":{"b":[1]}},"structs":{"a":{"int":1}},"pointers":{"a":null,"b":{"id":1}},"any":{"n":12345678901234567890,"l":[1.0,{}]}}`,
	`{"ints":[1,2.0,-3e0],"strings":["a",null],"bytes":"AAECAw==","nested":[[1.5],[]],"structs":[{"id":1}],"pointers":[null,{"id":2}],"pair":[1,2],"sum":[1,2,3,4],"none":[],"empty":[{},{}],"grid":[["a",null],[null,"b"]],"bools":[true],"shouts":["x!"]}`,
	`{"pair":[1],"sum":[256],"none":[""],"bytes":"A","bools":[1]}`,
	`{"any":{"a":[1e400,-0,"x",null,true]},"more":5,"raw":{"x" : [ 1 ]},"number":1.50,"maybe":-1e-7,"numbers":[1,2],"exact":1e1000,"time":"2025-11-25T10:30:00.5+01:00","when":"2025-02-30T00:00:00Z","span":1000000000,"big":123456789012345678901234567890,"addr":"::1","face":null}`,
	`{"number":"5","maybe":null,"raw":null,"span":1.5,"big":1.5,"face":{},"time":5}`,
	`{"int":"5","uint":"255","float":"1e3","bool":"true","string":"\"x\"","maybe":"7","omit":"1"}`,
	`{"int":"1.0","uint":"-1","float":"NaN","bool":"1","string":"x","maybe":"null","omit":1}`,
	`{"result":{"content":[{"type":"text","text":"x"},{"type":"new"}],"isError":false},"task":{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":6e4},"tools":{"x":{"name":"x","inputSchema":{"type":"object"}}},"token":1.0,"args":{}}`,
	`{"result":{"content":{}},"task":{"ttl":1.5}}`,
	`{"pair":[1,2],"pointer":[3,4],"list":[[5,6]],"map":{"a":[7,8]},"array":[[9,0]],"shout":"a!","loud":"b!","omitted":[1]}`,
	`{"a!":[1,2],"b":[3,4]}`, `{"p":{"p":{}}}`, `[{"int":1},{"bool":false}]`, `[{"a":[{"id":1,"title":"x"},null]}]`,
	`"text"`, `1.0`, `-1.5e-3`, `null`, `true`, `[]`, `{}`, `1e400`, `"AAEC"`, `"2025-11-25T10:30:00Z"`, ` [ 1 , { "a" : null } ] `,
	`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `[1] 2`, `{"int":`, "\xef\xbb\xbf{}",
}

// reference implements the rules of package value with the module that encoding/json/v2 comes from.
type reference struct{ reading, exact, writing experimentjson.Options }

func newReference() reference {
	form := experimentjson.JoinOptions(
		experimentv1.FormatByteArrayAsArray(true), experimentv1.FormatBytesWithLegacySemantics(true), experimentv1.FormatDurationAsNano(true),
		experimentv1.OmitEmptyWithLegacySemantics(true), experimentv1.StringifyWithLegacySemantics(true),
	)
	name := func(kind jsontext.Kind, length int64) bool { return kind == '{' && length%2 == 0 }
	free := experimentjson.JoinUnmarshalers(
		experimentjson.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
			text, err := d.ReadValue()
			if err != nil {
				return err
			}
			s := json.NewDecoder(bytes.NewReader(text))
			s.UseNumber()
			*v = nil
			return s.Decode(v)
		}),
		experimentjson.UnmarshalFromFunc(func(d *jsontext.Decoder, v *json.Number) error {
			if name(d.StackIndex(d.StackDepth())) {
				return errors.ErrUnsupported
			}
			text, err := d.ReadValue()
			if kind := text.Kind(); kind == 'n' {
				*v = ""
			} else if kind == '0' {
				*v = json.Number(text)
			} else {
				return errors.New("no number")
			}
			return err
		}))
	return reference{
		experimentjson.JoinOptions(form, experimentjson.WithUnmarshalers(free)),
		experimentjson.JoinOptions(form, experimentjson.WithUnmarshalers(experimentjson.JoinUnmarshalers(free, experimentjson.UnmarshalFromFunc(readInteger)))),
		experimentjson.JoinOptions(form, experimentjson.Deterministic(true), experimentjson.WithMarshalers(
			experimentjson.MarshalToFunc(func(e *jsontext.Encoder, v json.Number) error {
				if name(e.StackIndex(e.StackDepth())) {
					return errors.ErrUnsupported
				}
				if v == "" {
					v = "0"
				}
				return e.WriteValue(jsontext.Value(v))
			}))),
	}
}

// readInteger reads an integer in any notation into an integer type without methods.
func readInteger(d *jsontext.Decoder, v any) error {
	p := reflect.ValueOf(v)
	if _, ok := v.(encoding.TextUnmarshaler); ok || p.Kind() != reflect.Pointer || d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	if _, ok := v.(json.Unmarshaler); ok || !p.Elem().CanInt() && !p.Elem().CanUint() {
		return errors.ErrUnsupported
	}
	text := string(number.Find(d.UnreadBuffer()))
	if hugeExponent.MatchString(text) {
		text = zero.ReplaceAllString(text, "0")
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok || !r.IsInt() {
		return errors.ErrUnsupported
	}
	if _, err := d.ReadValue(); err != nil {
		return err
	}
	switch n, target := r.Num(), p.Elem(); {
	case target.CanInt() && n.IsInt64() && !target.OverflowInt(n.Int64()):
		target.SetInt(n.Int64())
	case target.CanUint() && n.IsUint64() && !target.OverflowUint(n.Uint64()):
		target.SetUint(n.Uint64())
	default:
		return errors.New("out of range")
	}
	return nil
}

var (
	number       = regexp.MustCompile(`-?[0-9][-+0-9.eE]*`)
	hugeExponent = regexp.MustCompile(`[eE][-+]?0*[1-9][0-9]{4}`) // may still be a small number if the mantissa has many zeros
	zero         = regexp.MustCompile(`^-?0(?:\.0+)?[eE][-+]?[0-9]+$`)
)

// FuzzValue compares package value with the reference: both must accept the same texts, decode them
// to the same values and encode these equally. The place of an error must exist. The output must
// decode to the same value, and must not change when the input text is overwritten. Garbage is
// collected continuously, to detect invalid pointers.
func FuzzValue(f *testing.F) {
	for i, text := range valueTexts {
		for j := range targets {
			if j%5 == i%5 {
				f.Add(byte(j), []byte(text))
			}
		}
	}
	ref := newReference()
	debug.SetGCPercent(5)
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		checkRaw(t, text)
		ref.check(t, text, targets[int(which)%len(targets)])
	})
}

// FuzzTypes is FuzzValue for random types.
func FuzzTypes(f *testing.F) {
	types := make([]reflect.Type, 256)
	for i := range types {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		types[i] = randomType(rng, 3)
		for range 3 {
			v := reflect.New(types[i])
			fill(rng, v.Elem(), 4)
			text, err := json.Marshal(v.Interface())
			if err != nil {
				f.Fatal(err)
			}
			f.Add(byte(i), text)
		}
	}
	ref := newReference()
	debug.SetGCPercent(5)
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		ref.check(t, text, func() any { return reflect.New(types[which]).Interface() })
	})
}

// leaves are the innermost types of random types.
var leaves = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int64](), reflect.TypeFor[uint16](),
	reflect.TypeFor[uint64](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](),
	reflect.TypeFor[json.Number](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](), reflect.TypeFor[any](),
	reflect.TypeFor[struct{}](), reflect.TypeFor[word](), reflect.TypeFor[level](), reflect.TypeFor[shout](), reflect.TypeFor[pair](),
	reflect.TypeFor[only](), reflect.TypeFor[tree](), reflect.TypeFor[mcp.Annotations](),
}

// randomType returns a type that is nested up to depth times.
func randomType(rng *rand.Rand, depth int) reflect.Type {
	if depth == 0 || rng.IntN(6) == 0 {
		return leaves[rng.IntN(len(leaves))]
	}
	keys := []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[int16](), reflect.TypeFor[uint](), reflect.TypeFor[shout](), reflect.TypeFor[word]()}
	switch rng.IntN(8) {
	case 0:
		return reflect.PointerTo(randomType(rng, depth-1))
	case 1:
		return reflect.SliceOf(randomType(rng, depth-1))
	case 2:
		return reflect.ArrayOf(rng.IntN(4), randomType(rng, depth-1))
	case 3:
		return reflect.MapOf(keys[rng.IntN(len(keys))], randomType(rng, depth-1))
	}
	fields := make([]reflect.StructField, rng.IntN(12))
	options := []string{"", "", "", ",omitempty", ",omitzero"}
	for i := range fields {
		typ := randomType(rng, depth-1)
		tag := fmt.Sprintf("%c%d%s", 'a'+rune(rng.IntN(26)), i, options[rng.IntN(len(options))])
		switch typ.Kind() {
		case reflect.Int, reflect.Int8, reflect.Uint16, reflect.Uint64, reflect.Float64:
			if rng.IntN(4) == 0 {
				tag += ",string"
			}
		}
		fields[i] = reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: typ, Tag: reflect.StructTag(fmt.Sprintf("json:%q", tag))}
	}
	return reflect.StructOf(fields)
}

// fill gives v a random value, nested up to depth times.
func fill(rng *rand.Rand, v reflect.Value, depth int) {
	switch v.Type() {
	case reflect.TypeFor[json.Number]():
		v.SetString("1.5e3")
		return
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"x":[1,2]}`))
		return
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(rng.Int64N(4e9), 0).UTC()))
		return
	case reflect.TypeFor[any]():
		v.Set(reflect.ValueOf([]any{1.0, "x", map[string]any{"y": nil}}))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int64:
		v.SetInt(rng.Int64() >> rng.IntN(64))
	case reflect.Uint, reflect.Uint16, reflect.Uint64:
		v.SetUint(rng.Uint64() >> rng.IntN(64))
	case reflect.Uint8:
		v.SetUint(uint64(rng.IntN(256)))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(rng.NormFloat64())
	case reflect.String:
		v.SetString([]string{"", "a", "é\n", "long enough to be more than a word"}[rng.IntN(4)])
	case reflect.Pointer:
		if depth > 0 && rng.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rng, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), rng.IntN(4), 4))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			fill(rng, v.Index(i), depth-1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rng.IntN(4) * min(max(depth, 0), 1) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(rng, key, depth-1)
			fill(rng, value, depth-1)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(rng, v.Field(i), depth-1)
			}
		}
	}
}

// check decodes text into a new value with package value and with the reference, and back.
func (ref reference) check(t *testing.T, text []byte, target func() any) {
	got := target()
	input := bytes.Clone(text)
	err := codec.Unmarshal(input, value.Of(got))
	for i := range input {
		input[i] = '#'
	}
	if malformed := codec.Valid(text); malformed != nil {
		// Text after the value is checked last.
		if err == nil || err.Error() != malformed.Error() && !errors.Is(malformed, jsonfault.Trailing) {
			t.Fatalf("got %v, want %v", err, malformed)
		}
		return
	}
	want := target()
	wantErr := experimentjson.Unmarshal(text, want, ref.reading)
	if wantErr != nil { // the reference may refuse the notation of an integer
		want = target()
		wantErr = experimentjson.Unmarshal(text, want, ref.exact)
		if errors.Is(err, codec.ErrType) && strings.Contains(err.Error(), "want string with a number") {
			wantErr = err // exact does not know which fields have the tag option string
		}
	}
	if err != nil {
		checkPlace(t, text, err)
		if wantErr == nil {
			t.Fatalf("%T: refused: %v", got, err)
		}
		return
	}
	out, err := codec.Marshal(value.Of(got))
	if err != nil {
		t.Fatalf("%T: read, but not written: %v", got, err)
	}
	bare := reflect.ValueOf(got).Elem().Interface()
	held, err := codec.Marshal(value.Of([]any{got, bare, struct{ V any }{bare}}))
	if want := fmt.Sprintf(`[%s,%[1]s,{"V":%[1]s}]`, out); err != nil || string(held) != want {
		t.Fatalf("%T: in interfaces\n%s, want\n%s, %v", got, held, want, err)
	}
	if wantErr != nil {
		t.Fatalf("%T: taken as %s: %v", got, out, wantErr)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%T: read as\n%+v, want\n%+v", got, got, want)
	}
	direct := target()
	if err := value.Decode(text, direct); err != nil || !reflect.DeepEqual(direct, got) {
		t.Fatalf("%T: without the check read as\n%+v, %v, want\n%+v", got, direct, err, got)
	}
	book, err := experimentjson.Marshal(want, ref.writing)
	if err != nil || !bytes.Equal(out, book) {
		t.Fatalf("%T: written as\n%s, want\n%s, %v", got, out, book, err)
	}
	again := target()
	if err := codec.Unmarshal(out, value.Of(again)); err != nil {
		t.Fatalf("%T: %s is not read back: %v", got, out, err)
	}
	if second, err := codec.Marshal(value.Of(again)); err != nil || !bytes.Equal(out, second) {
		t.Fatalf("%T: no fixed point, %v:\n%s\n%s", got, err, out, second)
	}
}

// checkRaw checks that a raw value is encoded if and only if it is well formed.
func checkRaw(t *testing.T, text []byte) {
	malformed := codec.Valid(text, codec.MaxDepth(9000))
	for _, v := range []any{json.RawMessage(text), verbatim(text)} {
		out, err := codec.Marshal(value.Of([]any{v}))
		if (err == nil) != (malformed == nil) {
			t.Fatalf("%T is written: %v, but %v", v, err, malformed)
		}
		if err == nil && (codec.Valid(out, codec.MaxDepth(9001)) != nil || bytes.ContainsAny(out, "\r\n")) {
			t.Fatalf("%T is written as %q", v, out)
		}
	}
}

// verbatim is JSON that its method returns.
type verbatim string

func (v verbatim) MarshalJSON() ([]byte, error) { return []byte(v), nil }

// checkPlace checks that an error about well-formed text refers to an existing value.
func checkPlace(t *testing.T, text []byte, err error) {
	e, ok := errors.AsType[*codec.Error](err)
	if !ok || codec.Code(err) != -32602 {
		t.Fatalf("code %d for %v", codec.Code(err), err)
	}
	at, ok := codec.Locate(text, e.Pointer)
	line, column := codec.Position(text, at)
	if !ok || int64(at) != e.Offset || line != e.Line || column != e.Column {
		t.Fatalf("%q is at %d: %v", e.Pointer, at, err)
	}
}
