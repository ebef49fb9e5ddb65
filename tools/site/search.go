package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	word  = regexp.MustCompile(`[\p{L}\p{N}_]+`)
	inner = regexp.MustCompile(`[A-Z]+[a-z0-9]+|[A-Z]{2,}`) // a part of a Go name
)

// index returns the script that defines searchIndex, see static/search.js. A part of a Go name can
// be found like a word of a text.
func (s *site) index() ([]byte, error) {
	var pages, sections [][]any
	found := make(map[string][]int) // postings: numbers of sections, doubled, plus 1 for words of headings
	generated := func(p *page) bool { return strings.HasPrefix(p.name, "go/mcp") }
	var ordered, last []*page // of pages that match as well, the search shows the first ones
	for _, p := range s.pages {
		if generated(p) {
			last = append(last, p)
		} else {
			ordered = append(ordered, p)
		}
	}
	for _, p := range append(ordered, last...) {
		if strings.HasPrefix(p.name, "reference/evidence/") {
			continue // lists of thousands of tests, which would hide everything else
		}
		for _, part := range p.sections {
			if generated(p) && part.level == 3 {
				continue // all types have the same methods
			}
			n := len(sections)
			sections = append(sections, []any{len(pages), part.id, part.title})
			words := make(map[string]int)
			for _, w := range tokens(part.text) {
				words[w] = 0
			}
			for _, w := range tokens(part.title) {
				words[w] = 1
			}
			for w, heading := range words {
				found[w] = append(found[w], 2*n+heading)
			}
		}
		pages = append(pages, []any{p.name, p.title})
	}
	words := slices.Sorted(maps.Keys(found))
	postings := make([][]int, len(words))
	for i, w := range words {
		last := 0
		for _, posting := range found[w] {
			postings[i] = append(postings[i], posting-last&^1)
			last = posting
		}
	}
	var b bytes.Buffer
	b.WriteString("var searchIndex = ")
	if err := json.NewEncoder(&b).Encode(map[string]any{"pages": pages, "sections": sections, "words": words, "postings": postings}); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tokens returns the words of a text in lower case, and the parts of Go names.
func tokens(text string) (all []string) {
	for _, w := range word.FindAllString(text, -1) {
		if len(w) < 2 || len(w) > 40 {
			continue
		}
		all = append(all, strings.ToLower(w))
		for _, part := range inner.FindAllString(w, -1) {
			if len(part) > 2 && len(part) < len(w) {
				all = append(all, strings.ToLower(part))
			}
		}
	}
	return all
}
