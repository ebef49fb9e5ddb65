// Command batch is a server on standard input and output with a tool that processes a list. For
// entries that it cannot parse, it requests input from the user, both in a plain call and in a
// task.
//
//	go run ./tools/mcpwire call -task 'go run ./examples/batch' count 'rows=[{"item":"nuts","count":"12"},{"item":"bolts","count":"a few"}]'
package main

import (
	"context"
	"fmt"
	"log"
	"strconv"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

func main() {
	s := server.New("batch", "1", &server.Options{Tasks: task.Options{Store: memory.New()}})
	server.AddTool(s, "count", "Adds up the stock, and asks the user about counts that are not numbers.", count, server.Tasks(receiver.Support{}))
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type stock struct {
	Rows []row `json:"rows" jsonschema:"the items in stock"`
}

type row struct {
	Item  string `json:"item"`
	Count string `json:"count" jsonschema:"the count as written in the stock list"`
}

type sum struct {
	Total   int      `json:"total"`
	Skipped []string `json:"skipped,omitempty" jsonschema:"items that the user did not want to count"`
}

func count(ctx context.Context, c *server.Call, in stock) (out sum, err error) {
	for i, row := range in.Rows {
		n, err := strconv.Atoi(row.Count)
		if err != nil {
			var action mcp.ElicitAction
			if n, action, err = ask(ctx, c, row); err != nil {
				return out, err
			}
			switch action {
			case mcp.ElicitActionDecline:
				out.Skipped = append(out.Skipped, row.Item)
			case mcp.ElicitActionCancel:
				return out, fmt.Errorf("the user stopped at row %d of %d, %s", i+1, len(in.Rows), row.Item)
			}
		}
		out.Total += n
		if err := c.Progress(float64(i+1), float64(len(in.Rows)), row.Item); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ask requests the count of a row from the user. It returns 0 if the user does not accept.
func ask(ctx context.Context, c *server.Call, r row) (n int, action mcp.ElicitAction, err error) {
	var answer struct {
		Count int `json:"count" jsonschema:"a whole number"`
	}
	action, err = server.Elicit(ctx, c, fmt.Sprintf("How many are %q of %s?", r.Count, r.Item), &answer)
	return answer.Count, action, err
}
