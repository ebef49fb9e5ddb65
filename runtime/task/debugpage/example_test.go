package debugpage_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// Serve the page on a port that only operators can reach.
func ExampleNew() {
	ctx := context.Background()
	store, history := memory.New(), debugpage.NewHistory(1000)
	defer store.Close()
	manager, err := task.New(ctx, task.Options{Store: store, Hooks: task.Hooks{Audit: history.Add}})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	mux := http.NewServeMux()
	mux.Handle("/debug/tasks", debugpage.New(debugpage.Of(manager, store, history)))
	port := httptest.NewServer(mux)
	defer port.Close()
	response, err := http.Get(port.URL + "/debug/tasks")
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Println(response.Status, response.Header.Get("Content-Type"))
	// Output:
	// 200 OK text/html; charset=utf-8
}
