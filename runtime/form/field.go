// Package form interprets the form of an elicitation: its fields, the values they accept, and the
// faults of a response. A client uses it to show the form, to fill in defaults and to check its
// response. A server uses it to check the response it receives (MCP elicitation, "Requested
// Schema").
package form

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/pattern"
	"github.com/mcpwire/mcpwire/mcp"
)

// Value is the value of one field.
type Value = mcp.ElicitResultContentValue

// Kind is the kind of value that a field accepts.
type Kind uint8

// The kinds. An Unknown field has a schema that this package does not know. It accepts any value.
const (
	Unknown Kind = iota
	Text
	Number
	Integer
	Bool
	Choice  // one of the options
	Choices // any of the options
)

// Field is one field of a form.
type Field struct {
	Name        string
	Title       string // the label to show; Name if the server sends no title
	Description string // empty if the server sends none
	Required    bool
	Kind        Kind
	Format      mcp.StringSchemaFormat // for Text; empty means any
	Options     []Option               // for Choice and Choices
	Default     Value                  // nil if there is no default

	check func(Value) error
}

// Option is one option of a Choice or Choices field.
type Option struct {
	Value string // the value to send
	Title string // the label to show
}

// Fields returns the fields of a form. The required fields come first, in the order in which the
// schema lists them. The optional fields follow in the order of their names, because JSON objects
// are unordered. A nil schema has no fields.
func Fields(s *mcp.ElicitRequestFormParamsRequestedSchema) []Field {
	if s == nil {
		return nil
	}
	var list []Field
	var patterns pattern.Set
	add := func(name string, required bool) {
		if p, ok := s.Properties[name]; ok {
			list = append(list, newField(name, required, p, &patterns))
		}
	}
	// A set, because a peer's form may have very many required fields.
	required := make(map[string]bool, len(s.Required))
	for _, name := range s.Required {
		if !required[name] {
			required[name] = true
			add(name, true)
		}
	}
	var rest []string
	for name := range s.Properties {
		if !required[name] {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	for _, name := range rest {
		add(name, false)
	}
	return list
}

// newField returns the field that schema describes.
func newField(name string, required bool, schema mcp.PrimitiveSchemaDefinition, patterns *pattern.Set) Field {
	f := Field{Name: name, Required: required}
	var title, description *string
	switch s := schema.(type) {
	case *mcp.StringSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default, f.check = Text, text(s.Default), textRule(s, patterns)
		if s.Format != nil {
			f.Format = *s.Format
		}
	case *mcp.NumberSchema:
		title, description = s.Title, s.Description
		f.Kind = Number
		if s.Type == mcp.NumberSchemaTypeInteger {
			f.Kind = Integer
		}
		f.Default, f.check = number(s.Default), numberRule(s)
	case *mcp.BooleanSchema:
		title, description = s.Title, s.Description
		f.Kind, f.check = Bool, boolRule
		if s.Default != nil {
			f.Default = scalar(codec.BoolScalar(*s.Default))
		}
	case *mcp.UntitledSingleSelectEnumSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default, f.Options = Choice, text(s.Default), options(s.Enum, nil)
	case *mcp.LegacyTitledEnumSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default, f.Options = Choice, text(s.Default), options(s.Enum, s.EnumNames)
	case *mcp.TitledSingleSelectEnumSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default = Choice, text(s.Default)
		for _, o := range s.OneOf {
			f.Options = append(f.Options, Option{o.Const, o.Title})
		}
	case *mcp.UntitledMultiSelectEnumSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default, f.Options = Choices, texts(s.Default), options(s.Items.Enum, nil)
		f.check = choicesRule(f.Options, s.MinItems, s.MaxItems)
	case *mcp.TitledMultiSelectEnumSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default = Choices, texts(s.Default)
		for _, o := range s.Items.AnyOf {
			f.Options = append(f.Options, Option{o.Const, o.Title})
		}
		f.check = choicesRule(f.Options, s.MinItems, s.MaxItems)
	}
	if f.Kind == Choice {
		f.check = choiceRule(f.Options)
	}
	f.Title = name
	if title != nil && *title != "" {
		f.Title = *title
	}
	if description != nil {
		f.Description = *description
	}
	return f
}

// options pairs values with titles. A value without a title is its own title.
func options(values, titles []string) []Option {
	list := make([]Option, len(values))
	for i, v := range values {
		list[i] = Option{v, v}
		if i < len(titles) {
			list[i].Title = titles[i]
		}
	}
	return list
}

// accept returns an error that describes why v is not valid for the field, or nil if it is valid.
// The text is meant for the user and has no package prefix.
func (f *Field) accept(v Value) error {
	if isNil(v) {
		return errors.New("has no value")
	}
	if f.check == nil {
		return nil
	}
	return f.check(v)
}

// Check returns the faults of the response to a form, joined by [errors.Join], or nil if there are
// none. Each fault begins with the name of its field. Members without a field are ignored.
func Check(s *mcp.ElicitRequestFormParamsRequestedSchema, content map[string]Value) error {
	var faults []error
	if s == nil {
		return nil
	}
	for _, f := range Fields(s) {
		v, ok := content[f.Name]
		switch {
		case ok:
			if err := f.accept(v); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", f.Name, err))
			}
		case f.Required:
			faults = append(faults, fmt.Errorf("%s: is required", f.Name))
		}
	}
	for _, name := range s.Required { // names without a schema, which Fields leaves out
		if _, ok := s.Properties[name]; !ok && isNil(content[name]) {
			faults = append(faults, fmt.Errorf("%s: is required", name))
		}
	}
	return errors.Join(faults...)
}

// Fill returns a copy of content in which absent fields have their defaults. A nil value in content
// means that the user cleared the field: the copy has neither the field nor its default.
func Fill(s *mcp.ElicitRequestFormParamsRequestedSchema, content map[string]Value) map[string]Value {
	filled := map[string]Value{}
	for _, f := range Fields(s) {
		if f.Default != nil {
			filled[f.Name] = f.Default
		}
	}
	for name, v := range content {
		if v == nil {
			delete(filled, name)
			continue
		}
		filled[name] = v
	}
	return filled
}
