package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	store "github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// The tool charge-and-ask charges before it asks, and has the charge in no step. Where a client has a
// session, it charges once. Where it has none, the handler runs again with the user's response, and
// charges again. The tool pay does the same in a step, which runs once.
func ExampleStep() {
	charge := func(what string) (string, error) {
		fmt.Println("charged for", what)
		return "receipt 7", nil
	}
	type rating struct {
		Stars int `json:"stars" minimum:"1" maximum:"5"`
	}
	s := server.New("shop", "1", nil)
	defer s.Close()
	server.AddTool(s, "charge-and-ask", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		receipt, err := charge("a book") // wrong: this runs in each round
		if err != nil {
			return "", err
		}
		var r rating
		if _, err := server.Elicit(ctx, c, "Do you like the book?", &r); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, %d stars", receipt, r.Stars), nil
	})
	server.AddTool(s, "pay", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		receipt, err := server.Step(ctx, c, "charge", func(ctx context.Context) (string, error) {
			return charge("a pen") // pass server.IdempotencyKey(ctx) to the bank
		})
		if err != nil {
			return "", err
		}
		var r rating
		if _, err := server.Elicit(ctx, c, "Do you like the pen?", &r); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s, %d stars", receipt, r.Stars), nil
	})

	callInRounds(s, "charge-and-ask")
	callInRounds(s, "pay")
	// Output:
	// charged for a book
	// round 1: input_required
	// charged for a book
	// round 2: receipt 7, 4 stars
	// charged for a pen
	// round 1: input_required
	// round 2: receipt 7, 4 stars
}

// callInRounds calls a tool as a client of revision 2026-07-28, and responds with four stars.
func callInRounds(s *server.Server, tool string) {
	conn, serverConn := inmemory.Pair(inmemory.Options{})
	if _, err := s.Serve(serverConn); err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	var responses map[string]any
	state := json.RawMessage(`null`)
	for round := 1; round == 1 || string(state) != "null"; round++ {
		params := map[string]any{"name": tool, "_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    mcp.Revision20260728,
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
		}}
		if round > 1 {
			params["inputResponses"], params["requestState"] = responses, state
		}
		text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": round, "method": "tools/call", "params": params})
		if err := conn.Write(context.Background(), transport.Message{Text: text}); err != nil {
			log.Fatal(err)
		}
		answer, err := conn.Read()
		if err != nil {
			log.Fatal(err)
		}
		var got struct {
			Result struct {
				ResultType    string                     `json:"resultType"`
				InputRequests map[string]json.RawMessage `json:"inputRequests"`
				RequestState  json.RawMessage            `json:"requestState"`
				Content       []struct{ Text string }    `json:"content"`
			} `json:"result"`
		}
		if err := json.Unmarshal(answer.Text, &got); err != nil {
			log.Fatal(err)
		}
		if got.Result.ResultType != "input_required" {
			fmt.Printf("round %d: %s\n", round, got.Result.Content[0].Text)
			return
		}
		fmt.Printf("round %d: %s\n", round, got.Result.ResultType)
		responses, state = map[string]any{}, got.Result.RequestState
		for name := range got.Result.InputRequests {
			responses[name] = map[string]any{"action": "accept", "content": map[string]any{"stars": 4}}
		}
	}
}

// The tool waits for a payment, which the webhook of a bank reports, for at most a week.
func ExampleSelect() {
	ctx := context.Background()
	s := server.New("shop", "1", &server.Options{Tasks: task.Options{Store: store.New()}}) // or a bolt store, to survive
	defer s.Close()
	invoices := make(chan string, 1) // the bank
	server.AddTool(s, "order", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		_, err := server.Step(ctx, c, "invoice", func(ctx context.Context) (bool, error) {
			run, _ := c.Task()
			invoices <- run.ID()
			return true, nil
		})
		if err != nil {
			return "", err
		}
		paid, late := server.OnSignal[int]("paid"), server.After(7*24*time.Hour)
		first, err := server.Select(ctx, c, "payment", paid, late)
		if err != nil {
			return "", err
		}
		if first == late {
			return "the order has expired", nil
		}
		return fmt.Sprintf("%d € received", paid.Value), nil
	}, server.Durable())

	c := connectInMemory(ctx, s)
	defer c.Close()
	order, err := c.StartTool(ctx, "order", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := s.Signal(ctx, <-invoices, "paid", 12); err != nil { // by the webhook
		log.Fatal(err)
	}
	result, err := order.Result(ctx)
	fmt.Println(result.Content[0].(*mcp.TextContent).Text, err)
	// Output:
	// 12 € received <nil>
}
