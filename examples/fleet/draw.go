package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// Measures of the drawing, in pixels.
const (
	left      = 90 // of the time axis
	perSecond = 90
	lane      = 16 // height of the life of a worker
	row       = 4  // height of an order
)

// colors are those of the workers, in turn.
var colors = []string{"#4e79a7", "#f28e2b", "#76b7b2", "#e15759", "#59a14f", "#b07aa1", "#edc948", "#9c755f"}

// draw draws the lives of the workers and, below, the orders. Each item of an order has the color of
// the worker that packed it, and a thin line joins the items.
func draw(start time.Time, lives []life, orders []parcel) []byte {
	x := func(at time.Time) int { return left + int(max(at.Sub(start), 0).Seconds()*perSecond) }
	color := map[string]string{}
	end := start
	for i, l := range lives {
		color[l.name] = colors[i%len(colors)]
		if l.end.After(end) {
			end = l.end
		}
	}
	orders = slices.DeleteFunc(slices.Clone(orders), func(p parcel) bool { return len(p.Packed) == 0 })
	slices.SortFunc(orders, func(a, b parcel) int { return a.Packed[0].At.Compare(b.Packed[0].At) })
	top := 30 + lane*len(lives) + 24
	width, height := x(end)+60, top+row*len(orders)+16
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for second := 0; left+second*perSecond < width-30; second++ {
		at := left + second*perSecond
		fmt.Fprintf(&b, `<line x1="%d" y1="22" x2="%d" y2="%d" stroke="#ddd"/><text x="%d" y="16" fill="#666">%d s</text>`+"\n", at, at, height-8, at, second)
	}
	for i, l := range lives {
		y := 30 + lane*i
		fmt.Fprintf(&b, `<text x="6" y="%d">%s</text><rect x="%d" y="%d" width="%d" height="%d" rx="3" fill="%s"/>`, y+10, l.name, x(l.begin), y, max(x(l.end)-x(l.begin), 2), lane-5, color[l.name])
		if l.killed {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#c00">killed</text>`, x(l.end)+4, y+10)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, `<text x="6" y="%d">%d orders</text>`+"\n", top+10, len(orders))
	for i, p := range orders {
		y := top + row*i
		first, last := x(p.Packed[0].At.Add(-packing)), x(p.Packed[len(p.Packed)-1].At)
		fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#bbb"/>`, first, y+1, last, y+1)
		for _, done := range p.Packed {
			from := x(done.At.Add(-packing))
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`, from, y, x(done.At)-from-1, row-1, color[done.By])
		}
		b.WriteString("\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
