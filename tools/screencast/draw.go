package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"time"
)

// The animation shows the command, then each line of its output at its time, then the whole for a
// while, and begins again.
const (
	before = time.Second
	after  = 8 * time.Second
)

// The dimensions, in pixels.
const (
	fontSize = 13
	spacing  = 20 // from line to line
	margin   = 18
)

// advance is the width of a character in pixels, of the widest usual fonts.
const advance = 0.61 * fontSize

// style has the colours of a bright and of a dark page. Readers who prefer reduced motion see the whole
// output, and so do viewers without animations.
const style = `
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328;white-space:pre}
rect{fill:#f6f8fa;stroke:#d1d9e0}
.command{font-weight:bold}
.bad{fill:#d1242f;font-weight:bold}
.good{fill:#1a7f37;font-weight:bold}
.input{fill:#8250df}
.progress{fill:#59636e}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
rect{fill:#0d1117;stroke:#3d444d}
.bad{fill:#ff7b72}
.good{fill:#3fb950}
.input{fill:#d2a8ff}
.progress{fill:#9198a1}
}
`

// classes are the lines of the demo that stand out.
var classes = []struct {
	line  *regexp.Regexp
	class string
}{
	{regexp.MustCompile(`was killed`), "bad"},
	{regexp.MustCompile(`was started again|^result: `), "good"},
	{regexp.MustCompile(` asks: |^the answer is: `), "input"},
	{regexp.MustCompile(`^ *\d+ % `), "progress"},
}

func classOf(text string) string {
	for _, c := range classes {
		if c.line.MatchString(text) {
			return ` class="` + c.class + `"`
		}
	}
	return ""
}

// draw returns the animation as an SVG, without a script.
func draw(c *cast) []byte {
	width := int(float64(c.width())*advance) + 2*margin
	height := len(c.lines)*spacing + spacing + 2*margin
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s in a terminal</title>\n<style>%s", escape(c.command), style)
	cycle := before + after
	if len(c.lines) > 0 {
		cycle += c.lines[len(c.lines)-1].at
	}
	b.WriteString("@media (prefers-reduced-motion:no-preference){\n")
	for i, l := range c.lines {
		fmt.Fprintf(&b, "#l%d{animation:a%d %.3fs step-end infinite}\n", i+1, i+1, cycle.Seconds())
		fmt.Fprintf(&b, "@keyframes a%d{0%%{visibility:hidden}%.3f%%{visibility:visible}}\n", i+1, 100*(before+l.at).Seconds()/cycle.Seconds())
	}
	b.WriteString("}\n</style>\n")
	fmt.Fprintf(&b, `<rect x=".5" y=".5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	y := margin + fontSize
	fmt.Fprintf(&b, `<text x="%d" y="%d" class="command">$ %s</text>`+"\n", margin, y, escape(c.command))
	for i, l := range c.lines {
		y += spacing
		fmt.Fprintf(&b, `<text x="%d" y="%d" id="l%d"%s>%s</text>`+"\n", margin, y, i+1, classOf(l.text), escape(l.text))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// escape escapes a text for XML.
func escape(text string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(text)) // a Buffer does not fail
	return b.String()
}
