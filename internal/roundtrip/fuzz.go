package roundtrip

import (
	"bytes"
	"slices"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/instance"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/schema"
)

// Fuzz decodes random text as values of every definition of the revisions and checks the result
// with [CheckText]. Validate may return an error, but must not panic. The number in a fuzz input
// selects the definition and the revision.
func Fuzz(f *testing.F, revisions []string, newValue func(definition string) codec.Value, validate func(revision, definition string, text []byte) error) {
	seeds := NewSeeds(f, revisions)
	names := seeds.Names()
	for i, name := range names {
		rev := 0
		seeds.Add(name, 1, func(text []byte) {
			f.Add(uint16(i+rev*len(names)), text)
			rev++
		})
	}
	f.Fuzz(func(t *testing.T, i uint16, text []byte) {
		name := names[int(i)%len(names)]
		CheckText(t, text, func(r *wire.Reader) codec.Encoder {
			v := newValue(name)
			v.DecodeJSON(r)
			return v
		})
		rev := revisions[int(i)/len(names)%len(revisions)]
		if validate(rev, name, text) == nil && codec.Valid(text) != nil {
			t.Fatalf("malformed text is a valid %s of %s", name, rev)
		}
	})
}

// Seeds makes the seed inputs of fuzzing.
type Seeds struct {
	f    *testing.F
	docs []*load.Document
}

// NewSeeds reads the schemas of the revisions.
func NewSeeds(f *testing.F, revisions []string) Seeds {
	s := Seeds{f: f}
	for _, rev := range revisions {
		src, err := schema.Read(rev)
		if err != nil {
			f.Fatal(err)
		}
		doc, err := load.Parse(rev, rev+".json", src)
		if err != nil {
			f.Fatal(err)
		}
		s.docs = append(s.docs, doc)
	}
	return s
}

// Names lists the definitions of all revisions.
func (s Seeds) Names() []string {
	var names []string
	for _, doc := range s.docs {
		names = append(names, doc.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Add makes count values and count mutants of a definition in every revision that has it.
func (s Seeds) Add(definition string, count int, add func(text []byte)) {
	for _, doc := range s.docs {
		if doc.Defs[definition] == nil {
			continue
		}
		maker := instance.New(doc, 1)
		for range count {
			v, err := maker.Value(definition)
			if err != nil {
				s.f.Fatal(err)
			}
			add(v.JSON())
			add(maker.Mutant(v).JSON())
		}
	}
}

// CheckText decodes random text with read. Malformed text must be refused, possibly with an error
// before the malformed part. Well-formed text must not be refused as malformed. A decoded value
// must be encoded as the same value, and so must that encoding.
func CheckText(t *testing.T, text []byte, read func(*wire.Reader) codec.Encoder) {
	v, err := codec.UnmarshalFunc(text, read)
	malformed := codec.Valid(text)
	switch theirs := oracle.Text(text, wire.DefaultDepth); {
	case (malformed == nil) != (theirs == nil):
		t.Fatalf("got %v, want %v", malformed, theirs)
	case malformed != nil && err == nil:
		t.Fatalf("malformed text was decoded: %v", malformed)
	case malformed == nil && codec.Code(err) == -32700:
		t.Fatalf("the text is well formed, but decoding says %v", err)
	case err != nil:
		return
	}
	out, err := codec.Marshal(v)
	if err != nil {
		t.Fatalf("decoded, but not encoded: %v", err)
	}
	if d := oracle.Diff(text, out); d != "" {
		t.Fatalf("changed on the way: %s\n%s", d, out)
	}
	again, err := codec.UnmarshalFunc(out, read)
	if err != nil {
		t.Fatalf("decoded and encoded, but not decoded again: %v\n%s", err, out)
	}
	if out2, err := codec.Marshal(again); err != nil || !bytes.Equal(out, out2) {
		t.Fatalf("no fixed point (%v):\n%s\n%s", err, out, out2)
	}
}
