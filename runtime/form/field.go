// Package form knows what the form of an elicitation means: which fields it has, which values they
// take, and what is wrong with an answer. Both sides need it: a client to show the form, to fill in
// defaults and to check what it sends, and a server to check what it gets (MCP elicitation,
// "Requested Schema").
package form

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// Schema is the schema of a form: a flat object.
type Schema = mcp.ElicitRequestFormParamsRequestedSchema

// Value is the value of one field.
type Value = mcp.ElicitResultContentValue

// Kind is what a field takes.
type Kind uint8

// The kinds. A field of a kind that this package does not know takes whatever can be an answer.
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
	Title       string // to be shown; the name if the server gives none
	Description string // "" for none
	Required    bool
	Kind        Kind
	Format      mcp.StringSchemaFormat // of a text; "" for any
	Options     []Option               // of a choice
	Default     Value                  // nil for none

	check func(Value) error
}

// Option is one of the options of a choice.
type Option struct {
	Value string // to be sent
	Title string // to be shown
}

// Fields returns the fields of a form: first those that are required, in the order that the server
// gives, and then the others by name, for JSON objects have no order.
func Fields(s *Schema) []Field {
	if s == nil {
		return nil
	}
	var list []Field
	add := func(name string, required bool) {
		if p, ok := s.Properties[name]; ok {
			list = append(list, newField(name, required, p))
		}
	}
	required := make(map[string]bool, len(s.Required)) // a peer's form may have very many
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

// newField reads the schema of one field.
func newField(name string, required bool, schema mcp.PrimitiveSchemaDefinition) Field {
	f := Field{Name: name, Required: required}
	var title, description *string
	switch s := schema.(type) {
	case *mcp.StringSchema:
		title, description = s.Title, s.Description
		f.Kind, f.Default, f.check = Text, text(s.Default), textRule(s)
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

// options are the options with values, and with titles as far as there are.
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

// Check tells what is wrong with a value for the field, or returns nil.
func (f *Field) Check(v Value) error {
	if isNil(v) {
		return errors.New("there is no value")
	}
	if f.check == nil {
		return nil
	}
	return f.check(v)
}

// Check tells everything that is wrong with the answer to a form, field by field, or returns nil.
// Members that the form does not have are nothing wrong.
func Check(s *Schema, content map[string]Value) error {
	var faults []error
	if s == nil {
		return nil
	}
	for _, f := range Fields(s) {
		v, ok := content[f.Name]
		switch {
		case ok:
			if err := f.Check(v); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", f.Name, err))
			}
		case f.Required:
			faults = append(faults, fmt.Errorf("%s: is required", f.Name))
		}
	}
	for _, name := range s.Required { // a name without a schema is required all the same
		if _, ok := s.Properties[name]; !ok && isNil(content[name]) {
			faults = append(faults, fmt.Errorf("%s: is required", name))
		}
	}
	return errors.Join(faults...)
}

// Fill returns a copy of content in which absent fields have their defaults. A nil value stands for
// a field that the user has cleared: Fill sets no default for it and leaves it out. Content itself
// is not changed.
func Fill(s *Schema, content map[string]Value) map[string]Value {
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
