package mcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/hostile/refusal"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/roundtrip"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// plant returns text with the part between two offsets replaced.
func plant(text string, from, to int, by string) string { return text[:from] + by + text[to:] }

// parent returns the pointer of the array or object around a place.
func parent(pointer string) string { return pointer[:strings.LastIndexByte(pointer, '/')] }

// missingPointer returns the pointer that an error has if no value is found at a place. For the
// first element of an array it is the pointer of the array, because the array could have ended
// there.
func missingPointer(at instance.Place) string {
	if at.Name < 0 && at.Index == 0 && at.Pointer != "" {
		return parent(at.Pointer)
	}
	return at.Pointer
}

// planted is one kind of fault. Plant puts it at a place of a text and returns the changed text and
// the expected error. ok is false if the fault does not apply there.
type planted struct {
	name  string
	plant func(text string, at instance.Place) (broken string, want hostile.Refusal, ok bool)
}

// replacement is the fault that replaces the value by a text. The error is at offset in of that
// text.
func replacement(rule hostile.Rule, by string, in int) planted {
	return planted{by, func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		// The space matters if the value is the whole text: without it, the text would end early
		// instead of being malformed.
		return plant(text, at.Offset, at.End, by) + " ", hostile.Refusal{Rule: rule, Offset: at.Offset + in, Pointer: at.Pointer}, true
	}}
}

// malformed are faults that are reported at any place, for any expected type.
var malformed = []planted{
	replacement(hostile.Syntax, `!`, 0), replacement(hostile.Syntax, `'a'`, 0), replacement(hostile.Syntax, `+1`, 0), replacement(hostile.Syntax, "\x00", 0),
	replacement(hostile.Syntax, `NaN`, 0), replacement(hostile.Syntax, `:`, 0),
	replacement(hostile.Literal, `nul`, 0), replacement(hostile.Literal, `trUe`, 0),
	replacement(hostile.Number, `01`, 0), replacement(hostile.Number, `-`, 0), replacement(hostile.Number, `1.`, 0), replacement(hostile.Number, `1e+`, 0),
	replacement(hostile.Escape, `"a\x"`, 2), replacement(hostile.Escape, `"\u12g4"`, 1),
	replacement(hostile.Surrogate, `"a\ud800"`, 2), replacement(hostile.Surrogate, `"\ude00\ud83d"`, 1),
	replacement(hostile.UTF8, "\"ab\xff\"", 3), replacement(hostile.UTF8, "\"\xc0\xaf\"", 1), replacement(hostile.ControlChar, "\"a\tb\"", 2),
	replacement(hostile.StringSize, `"`+strings.Repeat("x", longest+1)+`"`, 0),
	{"a name twice inside", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		return plant(text, at.Offset, at.End, `{"x/~":1,"x\/~":2}`), hostile.Refusal{Rule: hostile.Duplicate, Offset: at.Offset + 9, Pointer: at.Pointer + "/x~1~0"}, true
	}},
	{"nested too deeply", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		left := hostile.DefaultMaxDepth - at.Depth
		return plant(text, at.Offset, at.End, strings.Repeat("[", left+1)), hostile.Refusal{Rule: hostile.Depth, Offset: at.Offset + left, Pointer: at.Pointer + strings.Repeat("/0", left)}, true
	}},
	{"the text ends in front of the value", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		return text[:at.Offset], hostile.Refusal{Rule: hostile.EOF, Offset: at.Offset, Pointer: missingPointer(at)}, true
	}},
	{"a comma for the value", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		return plant(text, at.Offset, at.End, ","), hostile.Refusal{Rule: hostile.Syntax, Offset: at.Offset, Pointer: missingPointer(at)}, true
	}},
	{"the text ends inside the value", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		cut := plant(text, at.Offset, len(text), `"abc`)
		return cut, hostile.Refusal{Rule: hostile.EOF, Offset: len(cut), Pointer: at.Pointer}, true
	}},
	{"two commas behind", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		pointer := ""
		switch {
		case at.Pointer == "":
			return plant(text, at.End, at.End, ",,"), hostile.Refusal{Rule: hostile.Trailing, Offset: at.End}, true
		case at.Name >= 0:
			pointer = parent(at.Pointer)
		default:
			pointer = fmt.Sprintf("%s/%d", parent(at.Pointer), at.Index+1)
		}
		return plant(text, at.End, at.End, ",,"), hostile.Refusal{Rule: hostile.Syntax, Offset: at.End + 1, Pointer: pointer}, true
	}},
	{"another value behind", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		if at.Pointer == "" {
			return plant(text, at.End, at.End, " {}"), hostile.Refusal{Rule: hostile.Trailing, Offset: at.End + 1}, true
		}
		return plant(text, at.End, at.End, " {}"), hostile.Refusal{Rule: hostile.Syntax, Offset: at.End + 1, Pointer: parent(at.Pointer)}, true
	}},
	{"no colon", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		if at.Name < 0 {
			return "", hostile.Refusal{}, false
		}
		colon := strings.LastIndexByte(text[:at.Offset], ':')
		return plant(text, colon, colon+1, " "), hostile.Refusal{Rule: hostile.Syntax, Offset: at.Offset, Pointer: parent(at.Pointer)}, true
	}},
	{"a bad name in front", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		if at.Name < 0 {
			return "", hostile.Refusal{}, false
		}
		return plant(text, at.Name, at.Name, `"a\ud800":1,`), hostile.Refusal{Rule: hostile.Surrogate, Offset: at.Name + 2, Pointer: parent(at.Pointer)}, true
	}},
	{"the same member in front", func(text string, at instance.Place) (string, hostile.Refusal, bool) {
		if at.Name < 0 {
			return "", hostile.Refusal{}, false
		}
		member := text[at.Name:at.End] + ","
		return plant(text, at.Name, at.Name, member), hostile.Refusal{Rule: hostile.Duplicate, Offset: at.Name + len(member), Pointer: at.Pointer}, true
	}},
}

// longest is the limit for the length of strings in this test.
const longest = 1 << 12

// example is a valid message.
type example struct {
	method string // of the request that it answers; "" if it is a request or a notification
	def    string // the definition of a request or a notification
	text   string
	places []instance.Place
}

// examples returns some messages of every method of a revision.
func examples(t *testing.T, rev mcp.Revision) []example {
	t.Helper()
	src, err := schema.Read(string(rev))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := load.Parse(string(rev), string(rev)+".json", src)
	if err != nil {
		t.Fatal(err)
	}
	maker := instance.New(doc, roundtrip.Seed(t))
	each := max(1, roundtrip.Count()/50)
	var list []example
	for _, name := range doc.Names() {
		method := doc.Defs[name].Property("method")
		if method == nil || method.Const == nil || !requires(doc.Defs[name], "jsonrpc") {
			continue
		}
		for range each {
			list = append(list, attempt(t, func() example {
				text, places := randomValue(t, maker, name)
				return example{"", name, text, places}
			}))
		}
	}
	for _, m := range mcp.Methods() {
		def := doc.Defs[m.Result]
		if def == nil || !m.In(rev) {
			continue
		}
		for range each {
			list = append(list, attempt(t, func() example {
				text, places := randomValue(t, maker, m.Result)
				return respond(m.Name, text, places)
			}))
		}
	}
	return list
}

func randomValue(t *testing.T, maker *instance.Maker, name string) (string, []instance.Place) {
	t.Helper()
	v, err := maker.Value(name)
	if err != nil {
		t.Fatal(err)
	}
	text, places := v.IndentPlaces()
	return string(text), places
}

// attempt makes examples until one can be decoded. Most examples can. The others have an additional
// member that gives them another meaning, such as a request with a result; package roundtrip lists
// them.
func attempt(t *testing.T, next func() example) example {
	t.Helper()
	for range 10 {
		e := next()
		good := true
		for _, err := range e.decode(e.text) {
			good = good && err == nil
		}
		if good {
			return e
		}
	}
	t.Fatal("no example can be decoded")
	return example{}
}

func requires(s *load.Schema, name string) bool {
	for _, r := range s.Required {
		if r == name {
			return true
		}
	}
	return false
}

// respond puts a result into a response.
func respond(method, result string, places []instance.Place) example {
	const before = "{\n\"jsonrpc\":\"2.0\",\"id\":1,\"result\":"
	moved := []instance.Place{{Offset: 0, End: len(before) + len(result) + 1, Name: -1}}
	for _, p := range places {
		p.Pointer = "/result" + p.Pointer
		p.Offset, p.End, p.Depth = p.Offset+len(before), p.End+len(before), p.Depth+1
		if p.Name >= 0 {
			p.Name += len(before)
		}
		moved = append(moved, p)
	}
	moved[1].Name = len(before) - len(`"result":`)
	return example{method, "", before + result + "}", moved}
}

// decode decodes the message in every way.
func (e example) decode(text string, opts ...codec.Option) map[string]error {
	errs := map[string]error{}
	_, errs["jsonrpc.Parse"] = jsonrpc.Parse([]byte(text), opts...)
	if e.method != "" {
		_, errs["mcp.DecodeResponse"] = mcp.DecodeResponse(e.method, []byte(text), opts...)
	} else {
		_, errs["mcp.DecodeRequest"] = mcp.DecodeRequest([]byte(text), opts...)
	}
	var talk mcp.Conversation
	talk.Expect(codec.IntScalar(1), e.method)
	_, errs["mcp.Conversation"] = talk.Decode([]byte(text), opts...)
	return errs
}

// A fault in the text is reported at its offset, in every context.
func TestDecodeReportsPlantedFaultAtItsOffset(t *testing.T) {
	limit := codec.MaxString(longest)
	for _, rev := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		planted, count := 0, 0
		for _, e := range examples(t, rev) {
			for i, at := range e.places {
				for j, f := range malformed {
					if len(e.places) > 60 && (i+j)%(len(e.places)/30) != 0 {
						continue // of the large ones not everything everywhere
					}
					text, want, ok := f.plant(e.text, at)
					if !ok {
						continue
					}
					errs := e.decode(text, limit)
					if want.Rule != hostile.StringSize {
						errs["mcp.Validate"] = mcp.Validate(rev, "JSONRPCMessage", []byte(text))
					}
					planted += len(errs)
					for way, err := range errs {
						if err := refusal.Check(want, text, err); err != nil {
							t.Errorf("%s, %s at %q: %v\n%.600s", way, f.name, at.Pointer, err, text)
							if count++; count > 5 {
								t.FailNow()
							}
						}
					}
				}
			}
		}
		t.Logf("%s: %d faults", rev, planted)
	}
}

// kinds are values of every kind, and a number that is not an integer.
var kinds = []string{`null`, `true`, `1.5`, `"x"`, `[]`, `{}`}

// A value of the wrong kind is kept, or rejected with its offset.
func TestDecodeReportsPlantedValueOfWrongKind(t *testing.T) {
	for _, rev := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		tried, refused, failed := 0, 0, 0
		for _, e := range examples(t, rev) {
			for _, at := range e.places {
				for _, kind := range kinds {
					text := plant(e.text, at.Offset, at.End, kind)
					for way, err := range e.decode(text) {
						tried++
						if err == nil {
							continue
						}
						refused++
						failure, ok := errors.AsType[*codec.Error](err)
						line, column := codec.Position([]byte(text), at.Offset)
						if !ok || failure.Pointer != at.Pointer || failure.Offset != int64(at.Offset) || failure.Line != line || failure.Column != column || jsonrpc.CodeOf(err) == jsonrpc.CodeParseError {
							t.Errorf("%s, %s at %q: %v\n%.600s", way, kind, at.Pointer, err, text)
							if failed++; failed > 25 {
								t.FailNow()
							}
						}
					}
				}
			}
		}
		t.Logf("%s: %d of %d refused", rev, refused, tried)
		if refused < tried/20 {
			t.Errorf("%s: only %d of %d refused", rev, refused, tried)
		}
	}
}

// Each fault of validation is at the offset of the wrong value, or of the name of a member that is
// not allowed.
func TestValidateReportsFaultsAtTheirOffset(t *testing.T) {
	for _, rev := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		found := 0
		for _, e := range examples(t, rev) {
			if e.def == "" {
				continue
			}
			for _, at := range e.places {
				for _, kind := range kinds {
					text := plant(e.text, at.Offset, at.End, kind)
					for _, err := range faultList(mcp.Validate(rev, e.def, []byte(text))) {
						found++
						if why := placeError(err, text, at, e.places, len(kind)-(at.End-at.Offset)); why != "" {
							t.Errorf("%s at %q: %v: %s\n%.600s", kind, at.Pointer, err, why, text)
						}
					}
				}
			}
		}
		if found < 1000 {
			t.Errorf("%s: only %d faults", rev, found)
		}
	}
}

func faultList(err error) jsonschema.Faults {
	var list jsonschema.Faults
	errors.As(err, &list)
	return list
}

// placeError describes what is wrong with the place of a fault in a text with a planted value, or
// returns "". Places are those before planting; values after the planted one have moved.
func placeError(f *codec.Error, text string, planted instance.Place, places []instance.Place, moved int) string {
	for _, p := range places {
		if p.Pointer != f.Pointer {
			continue
		}
		offset, name := p.Offset, p.Name
		if p.Offset > planted.Offset {
			offset, name = offset+moved, name+moved
		}
		line, column := codec.Position([]byte(text), int(f.Offset))
		switch {
		case f.Offset != int64(offset) && f.Offset != int64(name):
			return fmt.Sprintf("it is at %d", offset)
		case f.Line != line || f.Column != column:
			return fmt.Sprintf("it is at %d:%d", line, column)
		}
		return ""
	}
	return "there is no such place"
}
