// Command drafts tests generated packages. It reads cases from standard input, one JSON object per
// line, and writes the outcome of each. TestEverySchemaGenerates copies it into a module of its
// own, next to a file that declares the variable packages.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
)

// input is a case, as in package internal/roundtrip.
type input struct {
	Package    string
	Definition string
	Text       []byte
}

// output is the outcome of a case, as in package internal/roundtrip.
type output struct {
	Refused, Pointer string
	Broken           string
	Out, Again       []byte
	Faults           []string
	ValueFaults      []string
}

// pkg is a generated package.
type pkg struct {
	new           func(definition string) codec.Value
	validate      func(definition string, text []byte) error
	validateValue func(codec.Value) error
}

// of makes a pkg from the functions of a generated package.
func of[V codec.Value, R ~string](revision R, new func(string) V, validate func(R, string, []byte) error, validateValue func(V, R) error) pkg {
	return pkg{
		new:           func(definition string) codec.Value { return new(definition) },
		validate:      func(definition string, text []byte) error { return validate(revision, definition, text) },
		validateValue: func(v codec.Value) error { return validateValue(v.(V), revision) },
	}
}

func main() {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	out := json.NewEncoder(w)
	for in.More() {
		var c input
		if err := in.Decode(&c); err != nil {
			panic(err)
		}
		if err := out.Encode(try(packages[c.Package], c)); err != nil {
			panic(err)
		}
	}
}

func try(p pkg, c input) (o output) {
	defer func() {
		if r := recover(); r != nil {
			o.Broken = fmt.Sprint("panic: ", r)
		}
	}()
	o.Faults = places(p.validate(c.Definition, c.Text))
	v := p.new(c.Definition)
	if err := codec.Unmarshal(c.Text, v); err != nil {
		o.Refused = err.Error()
		var e *codec.Error
		if errors.As(err, &e) {
			o.Pointer = e.Pointer
		}
		return o
	}
	var err error
	if o.Out, err = codec.Marshal(v); err != nil {
		o.Broken = "encoding: " + err.Error()
		return o
	}
	again := p.new(c.Definition)
	if err := codec.Unmarshal(o.Out, again); err != nil {
		o.Broken = "decoding again: " + err.Error()
		return o
	}
	if o.Again, err = codec.Marshal(again); err != nil {
		o.Broken = "encoding again: " + err.Error()
	}
	o.ValueFaults = places(p.validateValue(v))
	return o
}

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
