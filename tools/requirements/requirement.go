package main

import (
	"embed"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed *.yaml
var sources embed.FS

// document is a document of the protocol, such as the specification of a revision.
type document struct {
	file  string // its rows
	title string

	rows []requirement // in the order of the file
}

// documents returns all documents of the protocol with their rows.
func documents() ([]document, error) {
	list := []document{{
		file:  "2025-11-25.yaml",
		title: "Revision 2025-11-25",
	}, {
		file:  "2026-07-28.yaml",
		title: "Revision 2026-07-28",
	}, {
		file:  "ext-tasks.yaml",
		title: "Tasks extension",
	}, {
		file:  "ext-skills.yaml",
		title: "Skills extension",
	}}
	for i := range list {
		source, err := sources.ReadFile(list[i].file)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(source, &list[i].rows); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// requirement is a row of a document.
type requirement struct {
	ID    string `yaml:"id"`
	Level string `yaml:"level"` // such as MUST or SHOULD-NOT
	On    string `yaml:"on"`    // the side that must meet it
	Text  string `yaml:"text"`
	Host  string `yaml:"host"` // the reason why the application must meet it; "" if this module must
}

// family returns the part of the id before the number: TOOL of TOOL-07, M-TOOL of M-TOOL-07.
func (r requirement) family() string { return r.ID[:max(0, strings.LastIndexByte(r.ID, '-'))] }

// must reports whether the level is MUST or MUST-NOT.
func (r requirement) must() bool { return strings.HasPrefix(r.Level, "MUST") }
