// Package roundtrip is the suite that every generated package must pass, once for each
// revision that it serves: random values of every definition, made from the schema itself,
// go through the Go types and back unharmed, and what an independent validator refuses is
// reported, and nothing else.
//
// Two environment variables change it: MCPWIRE_LONG=1 makes a few thousand values of
// every definition instead of a few dozen, and MCPWIRE_SEED=N makes other ones.
package roundtrip

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/oracle"
)

// Package is one revision as a generated package serves it.
type Package struct {
	Revision string
	Schema   []byte // the schema file of the revision

	// New returns a new value for a definition.
	New func(definition string) codec.Value
	// Validate and ValidateValue are the package's two ways to check against the revision.
	Validate      func(definition string, text []byte) error
	ValidateValue func(codec.Value) error
}

// Run runs the suite. Counts go to the log.
func Run(t *testing.T, p Package) {
	doc, err := load.Parse(p.Revision, p.Revision+".json", p.Schema)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := oracle.Compile(p.Schema)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{T: t, Package: p, schemas: schemas, ambiguous: map[string]int{}}
	seed, count := Seed(t), Count()
	for _, name := range doc.Names() {
		if doc.Defs[name].False {
			continue // it admits nothing
		}
		r.definition(instance.New(doc, mix(seed, p.Revision, name)), name, count)
		if r.failed >= maxFailed {
			t.Fatal("and more")
		}
	}
	t.Logf("seed %d: %d definitions, %d valid instances; %d mutants: %d refused (%d of them on decoding), %d still valid",
		seed, len(doc.Defs), r.valid, r.refused+r.still, r.refused, r.undecoded, r.still)
	total := 0
	for _, why := range slices.Sorted(maps.Keys(r.ambiguous)) {
		t.Logf("valid, but not decoded, %d times: %s", r.ambiguous[why], why)
		total += r.ambiguous[why]
	}
	if total*maxAmbiguous > r.valid+r.still {
		t.Errorf("%d of %d valid values could not be decoded", total, r.valid+r.still)
	}
	if r.refused < r.valid/4 {
		t.Error("mutants are too tame")
	}
}

const (
	maxFailed    = 10  // failed values after which a run gives up
	maxAmbiguous = 100 // one in so many valid values may be one of the exceptions
)

// exceptions are the places where a value that a revision admits may fail to decode, each
// with the reason. In all of them the schema names no member there, so that a stray one of
// that name may hold anything, but the member's presence is the only thing that tells the
// variants of a union apart. The value is then taken for the variant that has the member,
// and refused if it does not fit there.
var exceptions = []struct {
	place *regexp.Regexp
	why   string
}{
	{regexp.MustCompile(`(^(Primitive|Enum|.*SelectEnum)Schema(Definition)?|/requestedSchema/properties/[^/]*)/(enum|enumNames|oneOf|items)$`),
		"a form field with the members of an enumeration is one"},
	{regexp.MustCompile(`^JSONRPC\w*(/\*)?/(id|method|error|result)$`),
		"a message with an id is a request, one with a result or an error is a response"},
	{regexp.MustCompile(`^\w+ResultResponse/result/`),
		"a result is an InputRequiredResult if its resultType says so, else the method's own"},
	{regexp.MustCompile(`(^EmbeddedResource|/content(/\*)?|/result|/messages/\*/content)/resource/(text|blob)$|/contents/\*/(text|blob)$`),
		"the contents of a resource are text if they have a text"},
	{regexp.MustCompile(`(^InputResponse|^InputResponses/[^/]*|/inputResponses/[^/]*)/(roots|model|action|role|content)$`),
		"the answer to a request for input is told by roots, model or action"},
	{regexp.MustCompile(`^(JSONRPC)?(Request|Notification)/params/_meta$`),
		"the overrides give base messages, whose params are open, the params that all messages have in common"},
}

// Count is how many values to make of each definition.
func Count() int {
	if os.Getenv("MCPWIRE_LONG") != "" {
		return 3000
	}
	return 100 / slower
}

// Seed is the seed that all random values start from.
func Seed(t *testing.T) uint64 {
	text := os.Getenv("MCPWIRE_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("MCPWIRE_SEED: %v", err)
	}
	return seed
}

// mix makes a seed of its own for each definition, so that a change to one leaves the
// values of the others as they are.
func mix(seed uint64, parts ...string) uint64 {
	h := fnv.New64()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum64() + seed
}

type run struct {
	*testing.T
	Package
	schemas *oracle.Schemas

	valid, refused, undecoded, still int
	ambiguous                        map[string]int // exceptions met, by reason
	failed                           int
}

// definition makes count values of one definition, and a mutant of each. It stops at the
// first that fails.
func (r *run) definition(maker *instance.Maker, name string, count int) {
	if r.New(name) == nil {
		r.fail("%s: the package has no type for it", name)
		return
	}
	for i := range count {
		v, err := maker.Value(name)
		if err != nil {
			r.fail("%v", err)
			return
		}
		text := v.JSON()
		if i%16 == 0 {
			text = v.Indent()
		}
		if err := r.admitted(name, text, i%4 == 0); err != nil {
			r.fail("%s, instance %d: %v\n%s", name, i, err, text)
			return
		}
		r.valid++
		text = maker.Mutant(v).JSON()
		if err := r.mutant(name, text); err != nil {
			r.fail("%s, mutant %d: %v\n%s", name, i, err, text)
			return
		}
	}
}

func (r *run) fail(format string, args ...any) {
	r.Helper()
	r.failed++
	r.Errorf(format, args...)
}

// admitted checks a value that the revision admits; thorough looks at it from more sides.
func (r *run) admitted(name string, text []byte, thorough bool) error {
	if err := r.schemas.Validate(name, text); err != nil {
		return fmt.Errorf("the validator refuses the instance: %v", err)
	}
	if err := r.Validate(name, text); err != nil {
		return fmt.Errorf("Validate refuses it: %w", err)
	}
	v, out, err := r.through(name, text)
	if err != nil {
		if r.excepted(name, text, err) {
			return nil
		}
		return err
	}
	if err := r.ValidateValue(v); err != nil {
		return fmt.Errorf("the decoded value's Validate refuses it: %w", err)
	}
	if !thorough {
		return nil
	}
	if at := findUnknown("", reflect.ValueOf(v)); at != "" {
		return fmt.Errorf("a variant of this revision was decoded as unknown at %s", at)
	}
	return r.standard(name, text, v, out)
}

// through decodes and encodes a value twice and compares. An error of the first decoding
// is returned as it is.
func (r *run) through(name string, text []byte) (codec.Value, []byte, error) {
	v := r.New(name)
	input := bytes.Clone(text)
	if err := codec.Unmarshal(input, v); err != nil {
		return nil, nil, err
	}
	clear(input) // what was decoded must not share memory with it
	out, err := codec.Marshal(v)
	if err != nil {
		return nil, nil, fmt.Errorf("decoded, but not encoded: %v", err)
	}
	if d := oracle.Diff(text, out); d != "" {
		return nil, nil, fmt.Errorf("changed on the way: %s\n%s", d, out)
	}
	again := r.New(name)
	if err := codec.Unmarshal(out, again); err != nil {
		return nil, nil, fmt.Errorf("decoded and encoded, but not decoded again: %v\n%s", err, out)
	}
	if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
		return nil, nil, fmt.Errorf("no fixed point (%v):\n%s\n%s", err, out, out2)
	}
	return v, out, nil
}

// standard checks that encoding/json sees the same as package codec, and that values can
// be compared.
func (r *run) standard(name string, text []byte, v codec.Value, out []byte) error {
	var bare any = v
	if h, ok := v.(interface{ Unwrap() any }); ok {
		bare = h.Unwrap()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(bare); err != nil {
		return fmt.Errorf("encoding/json: %v", err)
	}
	// Go's rules for null, zero values and order of plain maps and slices apply to what is no
	// struct, so only the value must be the same there.
	if d := oracle.Diff(text, b.Bytes()); d != "" {
		return fmt.Errorf("changed by encoding/json: %s\n%s", d, b.Bytes())
	}
	again := r.New(name)
	if err := codec.Unmarshal(text, again); err != nil {
		return err
	}
	if d := gocmp.Diff(any(v), any(again), compareHolders); d != "" {
		return fmt.Errorf("two decodings differ (-first +second):\n%s", d)
	}
	if _, ok := bare.(json.Marshaler); !ok || bare != any(v) {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, out); err != nil {
		return err
	}
	if got := bytes.TrimSuffix(b.Bytes(), []byte("\n")); !bytes.Equal(compact.Bytes(), got) {
		return fmt.Errorf("encoding/json writes other text:\n%s\n%s", compact.Bytes(), got)
	}
	std := r.New(name)
	if err := json.Unmarshal(text, std); err != nil {
		return fmt.Errorf("encoding/json: %v", err)
	}
	if d := gocmp.Diff(any(v), any(std)); d != "" {
		return fmt.Errorf("encoding/json decodes another value (-codec +encoding/json):\n%s", d)
	}
	return nil
}

// compareHolders compares what New returns for a definition that is no struct by its
// contents.
var compareHolders = gocmp.FilterValues(
	func(a, b codec.Value) bool {
		_, ok := a.(interface{ Unwrap() any })
		return ok
	},
	gocmp.Comparer(func(a, b codec.Value) bool {
		return gocmp.Equal(a.(interface{ Unwrap() any }).Unwrap(), b.(interface{ Unwrap() any }).Unwrap())
	}))

// findUnknown returns the place of a union's unknown variant in v, or "".
func findUnknown(at string, v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return findUnknown(at, v.Elem())
	case reflect.Struct:
		if v.Type().Name() == "Unknown" {
			return cmp.Or(at, "the root")
		}
		if v.Type().PkgPath() == reflect.TypeFor[codec.Extra]().PkgPath() {
			return ""
		}
		for i := range v.NumField() {
			if found := findUnknown(at+"."+v.Type().Field(i).Name, v.Field(i)); found != "" {
				return found
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return ""
		}
		for i := range v.Len() {
			if found := findUnknown(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); found != "" {
				return found
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if found := findUnknown(fmt.Sprintf("%s[%s]", at, key), v.MapIndex(key)); found != "" {
				return found
			}
		}
	}
	return ""
}

// mutant checks a value that the revision may or may not admit: both ways of validation
// and the independent validator agree, and nothing that decodes is changed.
func (r *run) mutant(name string, text []byte) error {
	want := r.schemas.Validate(name, text)
	if got := r.Validate(name, text); (got == nil) != (want == nil) {
		return fmt.Errorf("Validate says %v, the validator says %v", got, want)
	}
	if want == nil {
		r.still++
	} else {
		r.refused++
	}
	v, _, err := r.through(name, text)
	if err != nil {
		var e *codec.Error
		switch {
		case !errors.As(err, &e):
			return err
		case want != nil:
			r.undecoded++
			return nil
		case r.excepted(name, text, err):
			return nil
		}
		return fmt.Errorf("the validator admits it, but decoding fails: %w", err)
	}
	if got := r.ValidateValue(v); (got == nil) != (want == nil) {
		return fmt.Errorf("the decoded value's Validate says %v, the validator says %v", got, want)
	}
	return nil
}

// excepted reports whether err, from decoding a value that the revision admits, is one of
// the exceptions, and counts it. The revision must leave the place open: the validator
// admits every kind of value there.
func (r *run) excepted(name string, text []byte, err error) bool {
	var e *codec.Error
	if !errors.As(err, &e) {
		return false
	}
	tokens := strings.Split(e.Pointer, "/")[1:]
	for n := 1; n <= len(tokens); n++ {
		if !r.open(name, text, tokens[:n]) {
			continue
		}
		place := name
		for _, token := range tokens[:n] {
			if _, err := strconv.Atoi(token); err == nil {
				token = "*"
			}
			place += "/" + token
		}
		for _, x := range exceptions {
			if x.place.MatchString(place) {
				r.ambiguous[x.why]++
				return true
			}
		}
	}
	return false
}

// open reports whether the validator admits every kind of value in a place of text.
func (r *run) open(name string, text []byte, tokens []string) bool {
	for _, other := range []string{`null`, `true`, `1.5`, `"x"`, `[]`, `[[1]]`, `{}`, `{"x":1}`} {
		if changed, ok := replace(text, tokens, other); !ok || r.schemas.Validate(name, changed) != nil {
			return false
		}
	}
	return true
}

// replace returns text with the value at a place replaced.
func replace(text []byte, tokens []string, by string) ([]byte, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		return nil, false
	}
	at := root
	for i, token := range tokens {
		last := i == len(tokens)-1
		switch x := at.(type) {
		case map[string]any:
			key := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
			if at = x[key]; last {
				x[key] = json.RawMessage(by)
			}
		case []any:
			n, err := strconv.Atoi(token)
			if err != nil || n >= len(x) {
				return nil, false
			}
			if at = x[n]; last {
				x[n] = json.RawMessage(by)
			}
		default:
			return nil, false
		}
	}
	out, err := json.Marshal(root)
	return out, err == nil
}
