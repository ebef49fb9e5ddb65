package main

import (
	_ "embed"
	"strings"

	"github.com/goccy/go-yaml"
)

//go:embed 2025-11-25.yaml
var source []byte

// requirement is a row of the file.
type requirement struct {
	ID    string `yaml:"id"`
	Level string `yaml:"level"` // such as MUST or SHOULD-NOT
	On    string `yaml:"on"`    // the side that must meet it
	Text  string `yaml:"text"`
	Host  string `yaml:"host"` // the reason why the application must meet it; "" if this module must
}

// requirements returns all rows, in the order of the file.
func requirements() ([]requirement, error) {
	var list []requirement
	err := yaml.Unmarshal(source, &list)
	return list, err
}

// family returns the part of the id before the number.
func (r requirement) family() string {
	family, _, _ := strings.Cut(r.ID, "-")
	return family
}

// must reports whether the level is MUST or MUST-NOT.
func (r requirement) must() bool { return strings.HasPrefix(r.Level, "MUST") }

// built returns the families that this module implements.
func built() []string {
	return []string{"JSONRPC", "LIFE", "PING", "CANC", "PROG", "STDIO", "TASK",
		"SCHEMA", "META", "RES", "PROMPT", "COMPL", "LOG", "PAGE", "SAMP", "ROOT", "TRANS", "HTTP", "LEGACY",
		"ELIC", "SDK", "TOOL", "ICON", "RESUME"}
}
