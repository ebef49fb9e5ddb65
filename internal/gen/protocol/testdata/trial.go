// Command trial runs a server with clients of two revisions, and prints their results. It uses
// types that only the made-up revision of TestMadeUpRevision has.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

func main() {
	s := server.New("trial", "1", &server.Options{
		Features: server.Features{
			Capabilities: func(c *mcp.ServerCapabilities) { c.Weather = new(mcp.ServerCapabilitiesWeather) },
			Methods: map[string]session.Handler{
				mcp.MethodWeatherGet: func(context.Context, *session.Request) (codec.Encoder, error) {
					return &mcp.GetWeatherResult{Report: "sunny"}, nil
				},
			},
		},
		Session: session.Options{Logger: slog.New(slog.DiscardHandler)},
	})
	defer s.Close()
	server.AddTool(s, "film", "", func(context.Context, *server.Call, struct{}) (*mcp.CallToolResult, error) {
		return server.Content(&mcp.VideoContent{Data: "AAAA", MIMEType: "video/mp4"}, &mcp.TextContent{Text: "a film"}), nil
	}, server.DefineTool(func(t *mcp.Tool) { t.Tagline = new("short") }))
	for _, rev := range session.Revisions()[:2] {
		ctx := context.Background()
		here, there := inmemory.Pair(inmemory.Options{})
		_, err := s.Serve(there)
		check(err)
		c, err := session.Connect(ctx, here, &mcp.InitializeRequestParams{ClientInfo: mcp.Implementation{Name: "trial", Version: "1"}}, &session.Options{Revisions: []mcp.Revision{rev}})
		check(err)
		fmt.Printf("session of %s\n", c.Revision())
		peer := mcp.ToServer{Caller: c}

		weather := "refused"
		if r, err := peer.GetWeather(ctx, &mcp.GetWeatherRequestParams{City: "Oslo"}); err == nil {
			text, err := json.Marshal(r)
			check(err)
			weather = string(text)
		}
		fmt.Println("weather/get:", weather)

		list, err := peer.ListTools(ctx, nil)
		check(err)
		tagline := "no tagline"
		if t := list.Tools[0].Tagline; t != nil {
			tagline = fmt.Sprintf("the tagline is %q", *t)
		}
		fmt.Println("tools/list:", tagline)

		outcome, err := peer.CallTool(ctx, &mcp.CallToolRequestParams{Name: "film"})
		check(err)
		fmt.Print("tools/call:")
		for _, block := range outcome.(*mcp.CallToolResult).Content {
			fmt.Printf(" %T", block)
		}
		fmt.Println()

		level := "accepted"
		if _, err := peer.SetLevel(ctx, &mcp.SetLevelRequestParams{Level: mcp.LoggingLevelDebug}); err != nil {
			level = "refused"
		}
		fmt.Println("logging/setLevel:", level)
		c.Close()
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
