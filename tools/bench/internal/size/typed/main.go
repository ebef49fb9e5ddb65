// Command typed reads a message and writes it again with package mcp. An argument is the method that a response
// answers. Since it can be any, all types of the package are in the binary.
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
	return json.NewEncoder(os.Stdout).Encode(&m) // so that encoding/json is linked here, too
}
