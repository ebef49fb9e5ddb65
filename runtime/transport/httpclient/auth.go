package httpclient

import (
	"context"
	"net/http"
	"net/url"
)

// Authorizer authorizes the HTTP requests of connections (MCP basic/authorization). Implementations
// must be safe for concurrent use. Package oauth has one.
type Authorizer interface {
	// Authorize adds credentials to req before it is sent. It may wait for the refresh of a token,
	// but not for a user.
	Authorize(req *http.Request, op Operation) error

	// Challenged handles a response with status 401 or 403. It may wait for a user. If it returns
	// true, the request is sent again with new credentials from Authorize. If it fails, the request
	// fails with its error and the *StatusError.
	Challenged(ctx context.Context, resp *http.Response, op Operation) (again bool, err error)
}

// Operation describes a request to an Authorizer, which can limit the attempts per operation.
type Operation struct {
	Server *url.URL // the endpoint, without query and user
	// Method is the method of the JSON-RPC message. It is "" for GET and DELETE requests, and for
	// messages that no user waits for, such as pings of KeepAlive. The GET that opens a connection
	// of package sse has a Method.
	Method  string
	Name    string // of the tool, prompt or resource; "" if the message names none
	Attempt int    // 0 for the first attempt to send the message
}
