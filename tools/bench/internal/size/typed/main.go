// Command typed decodes and encodes a message with package mcp. The argument is the method of the
// request for a response. It can be any method, so that the binary contains all types of the
// package.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var m jsonrpc.Message
	if len(os.Args) > 1 {
		m, err = mcp.DecodeResponse(os.Args[1], text)
	} else {
		m, err = mcp.DecodeRequest(text)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(&m) // links encoding/json, like command plain
}
