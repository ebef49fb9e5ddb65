package form

import (
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// textRule checks texts. A pattern, which the page of the specification has and its schema has not,
// counts as far as Go can read it.
func textRule(s *mcp.StringSchema) func(Value) error {
	pattern := patternOf(s.Extra)
	return func(v Value) error {
		text, ok := scalarOf(v).Text()
		if !ok {
			return errors.New("must be a text")
		}
		n := int64(utf8.RuneCountInString(text))
		switch {
		case s.MinLength != nil && n < *s.MinLength:
			return fmt.Errorf("must have at least %d characters", *s.MinLength)
		case s.MaxLength != nil && n > *s.MaxLength:
			return fmt.Errorf("must have at most %d characters", *s.MaxLength)
		case pattern != nil && !pattern.MatchString(text):
			return fmt.Errorf("must match %s", pattern)
		case s.Format != nil && !inFormat(*s.Format, text):
			return fmt.Errorf("must be in the format %s", *s.Format)
		}
		return nil
	}
}

func patternOf(x codec.Extra) *regexp.Regexp {
	raw, ok := x.Get("pattern")
	if !ok {
		return nil
	}
	var p codec.Scalar
	if codec.Unmarshal(raw, &p) != nil {
		return nil
	}
	text, _ := p.Text()
	pattern, err := regexp.Compile(text)
	if err != nil || text == "" {
		return nil
	}
	return pattern
}

// inFormat reports whether a text is in a format; any is in one that is not known.
func inFormat(format mcp.StringSchemaFormat, text string) bool {
	var err error
	switch format {
	case mcp.StringSchemaFormatEmail:
		a, err := mail.ParseAddress(text)
		return err == nil && a.Address == text
	case mcp.StringSchemaFormatURI:
		u, err := url.Parse(text)
		return err == nil && u.IsAbs()
	case mcp.StringSchemaFormatDate:
		_, err = time.Parse(time.DateOnly, text)
	case mcp.StringSchemaFormatDateTime:
		_, err = time.Parse(time.RFC3339, strings.ToUpper(text))
	}
	return err == nil
}

func numberRule(s *mcp.NumberSchema) func(Value) error {
	return func(v Value) error {
		n, ok := scalarOf(v).Number()
		if !ok {
			return errors.New("must be a number")
		}
		x, err := strconv.ParseFloat(string(n), 64)
		switch {
		case err != nil:
			return errors.New("is out of range")
		case s.Type == mcp.NumberSchemaTypeInteger && x != math.Trunc(x):
			return errors.New("must be a whole number")
		case s.Minimum != nil && x < *s.Minimum:
			return fmt.Errorf("must be at least %v", *s.Minimum)
		case s.Maximum != nil && x > *s.Maximum:
			return fmt.Errorf("must be at most %v", *s.Maximum)
		}
		return nil
	}
}

func boolRule(v Value) error {
	if _, ok := scalarOf(v).Bool(); !ok {
		return errors.New("must be true or false")
	}
	return nil
}

func choiceRule(options []Option) func(Value) error {
	return func(v Value) error {
		text, ok := scalarOf(v).Text()
		if !ok || !isOption(options, text) {
			return fmt.Errorf("must be one of %s", listed(options))
		}
		return nil
	}
}

func choicesRule(options []Option, least, most *int64) func(Value) error {
	return func(v Value) error {
		list, ok := v.(*mcp.ElicitResultContentValueList)
		if !ok {
			return errors.New("must be a list")
		}
		for _, text := range list.Value {
			if !isOption(options, text) {
				return fmt.Errorf("%q is not one of %s", text, listed(options))
			}
		}
		switch n := int64(len(list.Value)); {
		case least != nil && n < *least:
			return fmt.Errorf("must be at least %d of them", *least)
		case most != nil && n > *most:
			return fmt.Errorf("must be at most %d of them", *most)
		}
		return nil
	}
}

func isOption(options []Option, text string) bool {
	return slices.ContainsFunc(options, func(o Option) bool { return o.Value == text })
}

func listed(options []Option) string {
	values := make([]string, len(options))
	for i, o := range options {
		values[i] = o.Value
	}
	return strings.Join(values, ", ")
}
