package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The committed drawing is that of the committed recording. Pages that show it as an image allow no
// scripts and no other files.
func TestDrawingIsOfRecording(t *testing.T) {
	recorded, err := os.ReadFile("demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	c, err := decode(bytes.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(recorded), string(c.encode())); diff != "" {
		t.Errorf("the recording changes when it is decoded and encoded (-want +got):\n%s", diff)
	}
	drawing, err := os.ReadFile("../../" + drawingFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(draw(c)), string(drawing)); diff != "" {
		t.Errorf("the drawing is not that of the recording; run go generate (-want +got):\n%s", diff)
	}
	if most := 60 << 10; len(drawing) > most {
		t.Errorf("the drawing has %d bytes, more than %d", len(drawing), most)
	}
	for d := xml.NewDecoder(bytes.NewReader(drawing)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok {
			switch start.Name.Local {
			case "svg", "title", "style", "rect", "text":
			default:
				t.Errorf("the drawing has an element %s", start.Name.Local)
			}
		}
	}
	if loads := regexp.MustCompile(`url\(|@import|href|\bon\w+=`).Find(drawing); loads != nil {
		t.Errorf("the drawing has %s", loads)
	}
}

// Each line appears at its time. Without animations, or with reduced motion, all lines are visible.
func TestDrawShowsLinesAtTheirTimes(t *testing.T) {
	drawing := string(draw(&cast{"a <b>", []line{
		{time.Second, "the server was killed & gone"},
		{3 * time.Second, " 25 % done"},
	}}))
	for _, want := range []string{
		`class="command">$ a &lt;b&gt;</text>`,
		`id="l1" class="bad">the server was killed &amp; gone</text>`,
		`id="l2" class="progress"> 25 % done</text>`,
		"#l1{animation:a1 12.000s step-end infinite}\n@keyframes a1{0%{visibility:hidden}16.667%{visibility:visible}}",
		"#l2{animation:a2 12.000s step-end infinite}\n@keyframes a2{0%{visibility:hidden}33.333%{visibility:visible}}",
	} {
		if strings.Count(drawing, want) != 1 {
			t.Errorf("want %q once in\n%s", want, drawing)
		}
	}
	moving := regexp.MustCompile(`(?s)@media \(prefers-reduced-motion:no-preference\)\{\n.*\n\}\n</style>`)
	if still := moving.ReplaceAllString(drawing, ""); strings.Contains(still, "animation") || strings.Contains(still, "visibility") {
		t.Errorf("the drawing moves although readers prefer reduced motion:\n%s", drawing)
	}
}

func TestDecodeRejects(t *testing.T) {
	const start = `{"version":2,"width":80,"height":24,"command":"x"}` + "\n"
	for name, text := range map[string]string{
		"nothing":               "",
		"another version":       `{"version":3}`,
		"input":                 start + `[1,"i","a\r\n"]`,
		"a part of a line":      start + `[1,"o","a"]`,
		"several lines":         start + `[1,"o","a\r\nb\r\n"]`,
		"an escape sequence":    start + `[1,"o","\u001b[1m\r\n"]`,
		"time that goes back":   start + `[2,"o","a\r\n"]` + "\n" + `[1,"o","b\r\n"]`,
		"something else":        start + `{}`,
		"an event that is torn": start + `[1,"o"`,
	} {
		if c, err := decode(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
