package jwtauth_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A server that serves only requests with a token of one issuer.
func Example() {
	verifier, err := jwtauth.New("https://login.example.com", nil)
	if err != nil {
		log.Fatal(err)
	}
	protector, err := auth.NewProtector(auth.Options{
		Resource: "https://mcp.example.com/mcp",
		Issuers:  []string{"https://login.example.com"},
		Verifier: verifier,
	})
	if err != nil {
		log.Fatal(err)
	}
	s := server.New("shop", "1.0.0", nil)
	defer s.Close()
	handler, err := s.Handler(&streamable.HandlerOptions{Auth: protector})
	if err != nil {
		log.Fatal(err)
	}

	// The response to a request without a token has the URL of the metadata of the server.
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, httptest.NewRequest(http.MethodPost, "https://mcp.example.com/mcp", nil))
	fmt.Println(response.Code, response.Header().Get("WWW-Authenticate"))
	// Output:
	// 401 Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
}
