package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"oss.terrastruct.com/d2/d2graph"
	"oss.terrastruct.com/d2/d2layouts/d2dagrelayout"
	"oss.terrastruct.com/d2/d2lib"
	"oss.terrastruct.com/d2/d2renderers/d2svg"
	"oss.terrastruct.com/d2/d2themes/d2themescatalog"
	"oss.terrastruct.com/d2/lib/log"
	"oss.terrastruct.com/d2/lib/textmeasure"
)

// drawFigures returns the figures that have a source in docs/figures, by file. A figure follows the
// colour scheme of its viewer, light or dark.
func drawFigures() (map[string][]byte, error) {
	sources, err := filepath.Glob(filepath.Join(root, "docs", "figures", "*.d2"))
	if err != nil {
		return nil, err
	}
	figures := make(map[string][]byte)
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		svg, err := draw(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		figures[strings.TrimSuffix(source, ".d2")+".svg"] = svg
	}
	return figures, nil
}

func draw(source string) ([]byte, error) {
	ctx := log.With(context.Background(), slog.New(slog.DiscardHandler))
	ruler, err := textmeasure.NewRuler()
	if err != nil {
		return nil, err
	}
	options := &d2svg.RenderOpts{
		Pad:         new(int64(8)),
		Scale:       new(1.0),
		ThemeID:     &d2themescatalog.NeutralDefault.ID,
		DarkThemeID: &d2themescatalog.DarkMauve.ID,
	}
	diagram, _, err := d2lib.Compile(ctx, source, &d2lib.CompileOptions{
		Ruler:          ruler,
		LayoutResolver: func(string) (d2graph.LayoutGraph, error) { return d2dagrelayout.DefaultLayout, nil },
	}, options)
	if err != nil {
		return nil, err
	}
	return d2svg.Render(diagram, options)
}
