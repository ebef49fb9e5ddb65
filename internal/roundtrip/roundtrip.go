// Package roundtrip is the test suite for generated packages, run once for each revision.
// It makes random values of every definition from the schema. They must survive decoding and
// encoding unchanged, and Validate must report the same faults as an independent validator.
//
// Three environment variables control it: MCPWIRE_SLOW=1 makes a hundred values of every
// definition instead of 25, and MCPWIRE_LONG=1 a few thousand. MCPWIRE_SEED=N sets the seed.
package roundtrip

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
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
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/internal/slowtest"
)

// Package is one revision of a generated package.
type Package struct {
	Revision string
	Schema   []byte // the schema file of the revision

	// New returns a new value for a definition. If New returns raw text, as it does for JSON-RPC
	// messages, the suite decodes the params with Params and the result with Result.
	New            func(definition string) codec.Value
	Params, Result func(r *wire.Reader, method string) codec.Value
	// Validate and ValidateValue are the package's two functions to validate against the revision.
	Validate      func(definition string, text []byte) error
	ValidateValue func(codec.Value) error
}

// Run runs the suite on a package of this module. Counts go to the log.
func Run(t *testing.T, p Package) {
	s := New(t, p.Revision, p.Schema)
	newValue := p.New
	p.New = func(definition string) codec.Value {
		v := newValue(definition)
		if h, ok := v.(interface{ Unwrap() any }); ok {
			if _, raw := h.Unwrap().(json.RawMessage); raw {
				if m := p.newMessage(s.doc, definition); m != nil {
					return m
				}
			}
		}
		return v
	}
	for c := range s.Cases(t, Count()) {
		if p.New(c.Definition) == nil {
			s.fail(t, c, errors.New("no type for the definition"))
			continue
		}
		v, o := p.try(c)
		err := s.Judge(c, o)
		if err == nil && o.Refused == "" && c.Thorough {
			err = p.standard(c, v, o.Out)
		}
		if err != nil {
			s.fail(t, c, err)
		}
	}
	s.Report(t)
	if s.Empty != nil {
		t.Error("a definition of a published revision has no value")
	}
}

// Case is a value to test a generated package with.
type Case struct {
	Definition string
	Text       []byte
	Mutant     bool // randomly changed, so that it may be invalid
	Thorough   bool // run additional checks
}

// Outcome is the result of a generated package for a case.
type Outcome struct {
	Refused, Pointer string   // the error of decoding and its JSON pointer
	Broken           string   // an error of encoding, or of decoding again
	Out, Again       []byte   // the encoded value, and the result of decoding and encoding that
	Unknown          string   // place of a union with an unknown variant
	Faults           []string // places of the faults that Validate finds in the text
	ValueFaults      []string // places of the faults that Validate of the decoded value finds
}

// Suite makes the cases for one revision and judges the outcomes.
type Suite struct {
	// Empty lists the definitions without a value: there is none, or the random search found
	// none.
	Empty []string

	revision string
	doc      *load.Document
	schemas  *oracle.Schemas

	valid, refused, undecoded, still int
	ambiguous                        map[string]int // exceptions that occurred, by reason
	failed                           map[string]bool
}

// New returns the suite for a revision with the given schema file.
func New(t *testing.T, revision string, schema []byte) *Suite {
	t.Helper()
	doc, err := load.Parse(revision, revision+".json", schema)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := oracle.Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	return &Suite{revision: revision, doc: doc, schemas: schemas, ambiguous: map[string]int{}, failed: map[string]bool{}}
}

// Cases makes count values of every definition that admits any, and a mutant of each. It
// skips the remaining values of a definition that failed.
func (s *Suite) Cases(t *testing.T, count int) iter.Seq[Case] {
	seed := Seed(t)
	return func(yield func(Case) bool) {
		for _, name := range s.doc.Names() {
			if s.doc.Defs[name].False {
				continue
			}
			maker := instance.New(s.doc, mix(seed, s.revision, name))
			for i := range count {
				v, err := maker.Value(name)
				if err != nil {
					s.Empty = append(s.Empty, name)
					break
				}
				text := v.JSON()
				if i%16 == 0 {
					text = v.Indent()
				}
				if !yield(Case{Definition: name, Text: text, Thorough: i%4 == 0}) {
					return
				}
				if !yield(Case{Definition: name, Text: maker.Mutant(v).JSON(), Mutant: true}) {
					return
				}
				if s.failed[name] {
					break
				}
			}
			if len(s.failed) >= maxFailed {
				t.Error("and more")
				return
			}
		}
	}
}

func (s *Suite) fail(t *testing.T, c Case, err error) {
	t.Helper()
	s.failed[c.Definition] = true
	t.Errorf("%s: %v\n%s", c.Definition, err, c.Text)
}

// Report writes the counts to the log and checks that there were enough cases.
func (s *Suite) Report(t *testing.T) {
	t.Helper()
	t.Logf("seed %d: %d definitions, %d valid instances; %d mutants: %d refused (%d of them on decoding), %d still valid",
		Seed(t), len(s.doc.Defs), s.valid, s.refused+s.still, s.refused, s.undecoded, s.still)
	if s.Empty != nil {
		t.Logf("no value was found for %q", s.Empty)
	}
	total := 0
	for _, why := range slices.Sorted(maps.Keys(s.ambiguous)) {
		t.Logf("valid, but not decoded, or as another variant, %d times: %s", s.ambiguous[why], why)
		total += s.ambiguous[why]
	}
	if total*maxAmbiguous > s.valid+s.still {
		t.Errorf("%d of %d valid values could not be decoded", total, s.valid+s.still)
	}
	if s.refused < s.valid/4 {
		t.Error("too few mutants are refused")
	}
}

const (
	maxFailed    = 10  // failed definitions after which a run stops
	maxAmbiguous = 100 // at most one in so many valid values may be an exception
)

// exceptions are the places where a valid value may fail to decode, each with the reason. In all of
// them the schema does not name a member, so an additional member of that name may have any value,
// but it is decoded as a member with a type. The usual cause is a union whose variants differ only
// by the presence and the JSON type of that member: the value is decoded as the variant with that
// member.
var exceptions = []struct {
	place *regexp.Regexp
	why   string
}{
	{regexp.MustCompile(`(^(Primitive|Enum|.*SelectEnum)Schema(Definition)?|/requestedSchema/properties/[^/]*)/(enum|enumNames|oneOf|items|items/enum|items/anyOf)$`),
		"a form field with the members of an enumeration is one"},
	{regexp.MustCompile(`(^(Primitive|Enum)Schema(Definition)?|/requestedSchema/properties/[^/]*)/default$`),
		"an enumeration without names is one of 2025-11-25, where it can have a default"},
	{regexp.MustCompile(`^\w+ResultResponse/result/`),
		"a result is an InputRequiredResult if its resultType says so, else the method's own"},
	{regexp.MustCompile(`/resource/(text|blob)$|/contents/\*/(text|blob)$`),
		"the contents of a resource are text if they have a text"},
	{regexp.MustCompile(`(^InputResponse|^InputResponses/[^/]*|/inputResponses/[^/]*)/(roots|model|action|role|content)$` +
		`|(InputResponses\[[^\]]*\]|^\.value(\[[^\]]*\])?)\.Content\.Items\[`),
		"an input response is distinguished by roots, model or action"},
}

// Count returns the number of values to make of each definition.
func Count() int {
	switch {
	case os.Getenv("MCPWIRE_LONG") != "":
		return 3000
	case testing.Short():
		return 5
	case slowtest.Enabled():
		return 100
	}
	return 25
}

// Seed returns the seed of all random values.
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

// mix derives a seed for each definition, so that a change to one definition does not change
// the values of the others.
func mix(seed uint64, parts ...string) uint64 {
	h := fnv.New64()
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum64() + seed
}

// Judge returns an error if the outcome of a case is wrong.
func (s *Suite) Judge(c Case, o Outcome) error {
	want := s.schemas.Validate(c.Definition, c.Text)
	switch {
	case want != nil && !c.Mutant:
		return fmt.Errorf("the validator refuses the instance: %v", want)
	case (o.Faults == nil) != (want == nil):
		return fmt.Errorf("faults at %q, but the validator reports %v", o.Faults, want)
	}
	switch {
	case want != nil:
		s.refused++
	case c.Mutant:
		s.still++
	default:
		s.valid++
	}
	switch {
	case o.Broken != "":
		return errors.New(o.Broken)
	case o.Refused != "" && want != nil:
		s.undecoded++
		return nil
	case o.Refused != "" && s.excepted(c, o.Pointer):
		return nil
	case o.Refused != "":
		return fmt.Errorf("decoding a valid value fails: %s", o.Refused)
	}
	if d := oracle.Diff(c.Text, o.Out); d != "" {
		return fmt.Errorf("encoded as a different value: %s\n%s", d, o.Out)
	}
	if !bytes.Equal(o.Out, o.Again) {
		return fmt.Errorf("encoded differently after decoding again:\n%s\n%s", o.Out, o.Again)
	}
	if d := gocmp.Diff(o.Faults, o.ValueFaults); d != "" {
		return fmt.Errorf("the text and the decoded value have different faults (-text +value):\n%s", d)
	}
	if o.Unknown != "" && !c.Mutant && !s.exception(o.Unknown) {
		return fmt.Errorf("a variant of this revision was decoded as unknown at %s", o.Unknown)
	}
	return nil
}

// try decodes and encodes the value of a case twice.
func (p Package) try(c Case) (v codec.Value, o Outcome) {
	o.Faults = places(p.Validate(c.Definition, c.Text))
	v = p.New(c.Definition)
	input := bytes.Clone(c.Text)
	if err := codec.Unmarshal(input, v); err != nil {
		o.Refused = err.Error()
		if e, ok := errors.AsType[*codec.Error](err); ok {
			o.Pointer = e.Pointer
		} else {
			o.Broken = fmt.Sprintf("the error is a %T: %[1]v", err)
		}
		return v, o
	}
	clear(input) // the decoded value must not share its memory
	var err error
	if o.Out, err = codec.Marshal(v); err != nil {
		o.Broken = fmt.Sprintf("decoded, but not encoded: %v", err)
		return v, o
	}
	again := p.New(c.Definition)
	if err := codec.Unmarshal(o.Out, again); err != nil {
		o.Broken = fmt.Sprintf("decoded and encoded, but not decoded again: %v\n%s", err, o.Out)
		return v, o
	}
	if o.Again, err = codec.Marshal(again); err != nil {
		o.Broken = fmt.Sprintf("not encoded again: %v", err)
	}
	if _, ok := v.(*message); ok {
		o.ValueFaults = places(p.Validate(c.Definition, o.Out))
	} else {
		o.ValueFaults = places(p.ValidateValue(v))
	}
	if c.Thorough {
		o.Unknown = findUnknown("", reflect.ValueOf(v))
	}
	return v, o
}

// places lists the places of the faults in an error of Validate.
func places(err error) (list []string) {
	if err == nil {
		return nil
	}
	var faults jsonschema.Faults
	if !errors.As(err, &faults) {
		return []string{"nowhere: " + err.Error()}
	}
	for _, f := range faults {
		list = append(list, f.Pointer)
	}
	slices.Sort(list)
	return list
}

// standard checks that encoding/json and package codec agree, and that values can be compared.
// Out is v as encoded by package codec.
func (p Package) standard(c Case, v codec.Value, out []byte) error {
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
	if d := oracle.Diff(c.Text, b.Bytes()); d != "" {
		return fmt.Errorf("changed by encoding/json: %s\n%s", d, b.Bytes())
	}
	again := p.New(c.Definition)
	if err := codec.Unmarshal(c.Text, again); err != nil {
		return err
	}
	if d := gocmp.Diff(any(v), any(again), compareHolders); d != "" {
		return fmt.Errorf("two decodings differ (-first +second):\n%s", d)
	}
	if bare != any(v) {
		return nil // only structs have methods that encoding/json can call
	}
	// Up to Go 1.26, encoding/json replaces line separators with their escapes. The text of a type's
	// method goes through the same code as a raw value.
	var want bytes.Buffer
	e = json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	if err := e.Encode(json.RawMessage(out)); err != nil {
		return err
	}
	if !bytes.Equal(want.Bytes(), b.Bytes()) {
		return fmt.Errorf("encoding/json writes different text:\n%s\n%s", want.Bytes(), b.Bytes())
	}
	std := p.New(c.Definition)
	if err := json.Unmarshal(c.Text, std); err != nil {
		return fmt.Errorf("encoding/json: %v", err)
	}
	if d := gocmp.Diff(any(v), any(std)); d != "" {
		return fmt.Errorf("encoding/json decodes a different value (-codec +encoding/json):\n%s", d)
	}
	return nil
}

// compareHolders compares the contents of holders, which New returns for definitions that are not
// structs.
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
		if v.Type().PkgPath() == reflect.TypeFor[wire.Extra]().PkgPath() {
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

// excepted reports whether decoding of a valid value may fail at a place, and counts it. The
// revision must leave the place open: the validator admits every kind of value there.
func (s *Suite) excepted(c Case, pointer string) bool {
	tokens := strings.Split(pointer, "/")[1:]
	for n := 1; n <= len(tokens); n++ {
		if !s.open(c, tokens[:n]) {
			continue
		}
		place := c.Definition
		for _, token := range tokens[:n] {
			if _, err := strconv.Atoi(token); err == nil {
				token = "*"
			}
			place += "/" + token
		}
		if s.exception(place) {
			return true
		}
	}
	return false
}

// exception reports whether a place is one of the exceptions, and counts it.
func (s *Suite) exception(place string) bool {
	for _, x := range exceptions {
		if x.place.MatchString(place) {
			s.ambiguous[x.why]++
			return true
		}
	}
	return false
}

// open reports whether the validator admits every kind of value at a place.
func (s *Suite) open(c Case, tokens []string) bool {
	for _, other := range []string{`null`, `true`, `1.5`, `"x"`, `[]`, `[[1]]`, `{}`, `{"x":1}`} {
		if changed, ok := replace(c.Text, tokens, other); !ok || s.schemas.Validate(c.Definition, changed) != nil {
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
			key := jsonedit.UnescapeToken(token)
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
