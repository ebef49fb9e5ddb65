// Package auth authorizes requests over HTTP (MCP basic/authorization). It protects servers, and
// has the types that servers and clients share. Package oauth is the client side.
//
// # Protecting a server
//
// A [Protector] admits requests with an access token of one of its issuers, for its resource:
//
//	p, err := auth.NewProtector(auth.Options{
//		Resource: "https://mcp.example.com/mcp",
//		Issuers:  []string{"https://login.example.com"},
//		Verifier: verifier,
//	})
//	err = s.ListenAndServe(ctx, ":8080", &server.ListenOptions{HandlerOptions: streamable.HandlerOptions{Auth: p}})
//
// The [Verifier] decides whether a token is genuine: package jwtauth verifies signatures,
// package introspect asks the issuer, and a [VerifierFunc] calls your own code. If the identity
// provider does not register MCP clients, put the authorization server of package provider in front
// of it. Package trial is an authorization server for tests. The Protector does the rest:
//
//   - It checks the issuer, the audience and the expiry of each token, including tokens that a
//     VerifierFunc accepts, and caches verified tokens.
//   - It rejects other requests with a challenge (RFC 6750): status 401 without a valid token, 403
//     with too few scopes, 400 if the request is malformed. If the verifier is unavailable, the
//     status is 503, so that clients retry instead of asking their users to log in.
//   - It serves the metadata that names the authorization servers ([Protector.Handler]).
//   - It ends open streams when their token expires or is revoked ([Protector.Watch]).
//
// Options.Scopes applies to every request. Package server requires scopes for single features
// (RequireScopes), by arguments (RequireScopesFor) and by method (Scopes of its Options).
//
// Handlers find the [Identity] of the token in their context. Its principal owns the sessions,
// tasks and subscriptions of the request. Handlers do not see the token itself: it is neither in
// the context nor in the header that they can read, so they cannot pass it on to other services.
//
// To protect other handlers, such as those of web pages, use [Protector.Middleware].
package auth
