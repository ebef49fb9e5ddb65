// Package everything is a server with every feature of the protocol, for tests of clients and for
// the official conformance suite. The suite uses the features whose names start with test, and
// defines their results.
package everything

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	"image/color"
	"image/png"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// New returns the server. The store belongs to the caller. Clients can list their tasks if
// cfg names a Principal. The server calls disconnect, which may be nil, to cut the connection of a
// call.
func New(version string, store task.Store, tasks task.Options, cfg session.Options, disconnect func(context.Context) bool) (*server.Server, error) {
	inParts, err := partial.Receive(partial.Options{})
	if err != nil {
		return nil, err
	}
	tasks.Store = store
	cfg.Hooks.Receiving = append(slices.Clip(cfg.Hooks.Receiving), inParts)
	s := server.New("mcpwire-everything", version, &server.Options{
		Info: mcp.Implementation{
			Title:       new("Everything"),
			Description: new("Has every feature of the protocol, to test clients."),
			Icons:       []mcp.Icon{{Src: "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixel()), MIMEType: new("image/png"), Sizes: []string{"1x1"}}},
		},
		Instructions: "Call the tool countdown as a task to see one at work.",
		Session:      cfg,
		Tasks:        tasks,
	})
	if disconnect == nil {
		disconnect = func(context.Context) bool { return false }
	}
	addTools(s)
	addAsking(s)
	addRounds(s)
	addChanging(s)
	addTimed(s, disconnect)
	addTasks(s)
	addResources(s)
	addPrompts(s)
	addParts(s)
	return s, addSkills(s)
}

// pixel returns a PNG image of one red pixel.
func pixel() []byte {
	red := image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.RGBA{R: 255, A: 255}})
	var b bytes.Buffer
	if err := png.Encode(&b, red); err != nil {
		panic(err) // writing to a buffer does not fail
	}
	return b.Bytes()
}

// silence is an empty WAV file with 8000 samples of 8 bits per second.
func silence() []byte {
	return []byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x00\x00\x00\x00")
}

func picture() *mcp.ImageContent {
	return &mcp.ImageContent{Data: base64.StdEncoding.EncodeToString(pixel()), MIMEType: "image/png"}
}

func sound() *mcp.AudioContent {
	return &mcp.AudioContent{Data: base64.StdEncoding.EncodeToString(silence()), MIMEType: "audio/wav"}
}

func embedded(uri, mime, text string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.TextResourceContents{URI: uri, MIMEType: &mime, Text: text}}
}
