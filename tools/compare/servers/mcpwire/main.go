package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

type terms struct {
	A float64 `json:"a" jsonschema:"the first term"`
	B float64 `json:"b" jsonschema:"the second term"`
}

type sum struct {
	Sum float64 `json:"sum"`
}

func add(ctx context.Context, c *server.Call, in terms) (sum, error) {
	return sum{in.A + in.B}, nil
}

type order struct {
	Dish string `json:"dish" jsonschema:"what to cook"`
}

type party struct {
	People int `json:"people"`
}

func cook(ctx context.Context, c *server.Call, in order) (string, error) {
	if err := c.Progress(1, 2, "asking"); err != nil {
		return "", err
	}
	var p party
	action, err := server.Elicit(ctx, c, "For how many?", &p)
	if err != nil || action != mcp.ElicitActionAccept {
		return "Nothing was cooked.", err
	}
	return fmt.Sprintf("%s for %d", in.Dish, p.People), c.Progress(2, 2, "done")
}

func greet(ctx context.Context, c *server.Call, r server.Resource) (string, error) {
	return "Hello, " + r.Vars.Get("name") + "!", nil
}

type change struct {
	Code string `json:"code"`
}

func review(ctx context.Context, c *server.Call, in change) (string, error) {
	return "Please review: " + in.Code, nil
}

func main() {
	addr := flag.String("http", "", "where to serve HTTP; standard input and output without it")
	flag.Parse()
	s := server.New("example", "1", nil)
	server.AddTool(s, "add", "Adds two numbers.", add)
	server.AddTool(s, "cook", "Cooks a dish, and asks for how many.", cook)
	server.AddTemplate(s, "greeting://{name}", "greeting", greet, server.DefineTemplate(func(t *mcp.ResourceTemplate) { t.MIMEType = new("text/plain") }))
	server.AddPrompt(s, "review", "", review)
	var err error
	if *addr != "" {
		err = s.ListenAndServe(context.Background(), *addr, nil)
	} else {
		err = s.ServeStdio(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
}
