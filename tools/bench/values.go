package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/bytedance/sonic"
	experimentjson "github.com/go-json-experiment/json"
	goccyjson "github.com/goccy/go-json"
	goccyv2 "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// valueEngine decodes and encodes values of types that are known only at run time.
type valueEngine struct {
	name    string
	decode  func(text []byte, v any) error
	encode  func(v any) ([]byte, error) // nil if the engine cannot encode
	checked bool                        // decode itself checks the text completely
}

// valueEngines returns package value, the check that package value makes before it decodes, and the
// alternative engines. The alternatives decode after the same check.
func valueEngines() []valueEngine {
	return []valueEngine{
		{"mcpwire", func(text []byte, v any) error { return codec.Unmarshal(text, value.Of(v)) },
			func(v any) ([]byte, error) { return codec.Marshal(value.Of(v)) }, true},
		{"check", func(text []byte, v any) error { return codec.Valid(text) }, nil, true},
		{"goccy-v2", func(text []byte, v any) error { return goccyv2.Unmarshal(text, v) },
			func(v any) ([]byte, error) { return goccyv2.Marshal(v) }, false},
		{"goccy", goccy.unmarshal,
			func(v any) ([]byte, error) { return goccyjson.MarshalWithOption(v, goccyjson.DisableHTMLEscape()) }, false},
		{"json-experiment", func(text []byte, v any) error { return experimentjson.Unmarshal(text, v) },
			func(v any) ([]byte, error) { return experimentjson.Marshal(v) }, false},
		{"sonic", sonic.ConfigStd.Unmarshal, sonic.ConfigStd.Marshal, false},
		{"encoding-json", json.Unmarshal, json.Marshal, false},
	}
}

// read decodes after the check.
func (e valueEngine) read(text []byte, v any) error {
	if !e.checked {
		if err := codec.Valid(text); err != nil {
			return err
		}
	}
	return e.decode(text, v)
}

// valueCase is a text and the Go type that the author of a tool uses for it.
type valueCase struct {
	name, title string
	text        []byte
	target      func() any
}

type searchArguments struct {
	Query string `json:"query"`
	Limit int    `json:"limit"`
	All   bool   `json:"all,omitempty"`
}

type reportArguments struct {
	Title   string            `json:"title"`
	From    time.Time         `json:"from"`
	Tags    []string          `json:"tags,omitempty"`
	Filters []reportFilter    `json:"filters"`
	Page    *int              `json:"page,omitempty"`
	Options map[string]string `json:"options,omitempty"`
	Ratio   float64           `json:"ratio"`
	Extra   json.RawMessage   `json:"extra,omitempty"`
}

type reportFilter struct {
	Field string `json:"field"`
	Op    string `json:"op"`
	Value any    `json:"value"`
}

type fileArguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

type peopleOutput struct {
	People []person `json:"people"`
	Next   string   `json:"next"`
}

type person struct {
	ID      int64    `json:"id"`
	Name    string   `json:"name"`
	Email   *string  `json:"email,omitempty"`
	Score   float64  `json:"score"`
	Active  bool     `json:"active"`
	Tags    []string `json:"tags"`
	Address struct {
		Street string `json:"street"`
		City   string `json:"city"`
	} `json:"address"`
}

// valueCases returns arguments and outputs of tools. They are invented and always the same.
func valueCases() []valueCase {
	people := fmt.Appendf(nil, `{"people":[%s],"next":"p2"}`, messages.List(50, func(i int) []byte {
		return fmt.Appendf(nil, `{"id":%d,"name":"Person number %[1]d","email":"p%[1]d@example.com","score":%[1]d.25,"active":%v,`+
			`"tags":["x","y"],"address":{"street":"Main street %[1]d","city":"Oslo"}}`, 1000+i, i%2 == 0)
	}))
	return []valueCase{
		{"search", "three arguments", []byte(`{"query":"durable tasks","limit":10,"all":true}`), func() any { return new(searchArguments) }},
		{"report", "arguments of many kinds", []byte(`{"title":"Third quarter","from":"2025-11-25T10:30:00Z","tags":["a","b","c"],` +
			`"filters":[{"field":"price","op":"<","value":12.5},{"field":"name","op":"=","value":"x"}],"page":3,` +
			`"options":{"lang":"en","unit":"m"},"ratio":0.75,"extra":{"a":[1,2,3]}}`), func() any { return new(reportArguments) }},
		{"file", "a file as an argument", fmt.Appendf(nil, `{"path":"cmd/main.go","content":%s}`,
			messages.Quote(strings.Repeat("func main() {\n\tfmt.Println(\"hello\")\n}\n", 800))), func() any { return new(fileArguments) }},
		{"people", "50 structs as output", people, func() any { return new(peopleOutput) }},
		{"any", "the same without a type", people, func() any { return new(map[string]any) }},
	}
}

func runValues(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("values", flag.ContinueOnError)
	flags.SetOutput(stderr)
	rounds := flags.Int("rounds", 30, "give each contestant this `NUMBER` of turns")
	turn := flags.Duration("turn", 10*time.Millisecond, "let a turn take this `TIME`")
	wall := flags.Bool("wall", false, "measure clock time instead of processor time")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *rounds < 1 || *turn <= 0:
		return fmt.Errorf("-rounds and -turn must be positive")
	}
	now, _ := clock(*wall)
	p := plan{*rounds, *turn, now}
	decode, err := valueTable(p, "decode, after the check", func(c valueCase, e valueEngine) func() error {
		return func() error { return e.read(c.text, c.target()) }
	})
	if err != nil {
		return err
	}
	encode, err := valueTable(p, "encode", func(c valueCase, e valueEngine) func() error {
		v := c.target()
		if err := json.Unmarshal(c.text, v); err != nil {
			return func() error { return err }
		}
		if e.encode == nil {
			return nil
		}
		return func() error {
			_, err := e.encode(v)
			return err
		}
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "%s\n%s", decode, encode)
	return err
}

// valueTable measures an operation on all cases. Cells have MB/s and allocations, and the speed of
// package value relative to the other engines.
func valueTable(p plan, title string, operation func(valueCase, valueEngine) func() error) (string, error) {
	var lines [][]string
	for _, c := range valueCases() {
		var runners []runner
		for _, e := range valueEngines() {
			if run := operation(c, e); run != nil {
				runners = append(runners, runner{contestant{name: e.name}, run})
			}
		}
		samples, err := p.measure(runners)
		if err != nil {
			return "", fmt.Errorf("%s/%s: %w", title, c.name, err)
		}
		head, line := []string{title, "bytes"}, []string{c.title, strconv.Itoa(len(c.text))}
		for i, s := range samples {
			cell := fmt.Sprintf("%.0f (%d)", float64(len(c.text))/s.Median*1000, s.Allocs)
			if i > 0 {
				cell += fmt.Sprintf(" ×%.2f", ratio(samples[0], s))
			}
			head, line = append(head, s.Contestant), append(line, cell)
		}
		if lines == nil {
			lines = append(lines, head)
		}
		lines = append(lines, line)
	}
	return align(lines), nil
}
