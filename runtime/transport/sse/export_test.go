package sse

var ErrEndpoint = errEndpoint
