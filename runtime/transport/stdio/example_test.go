package stdio_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// A server that runs as a child process. Here, it is the test program, which returns the lines that
// it has read.
func ExampleStart() {
	ctx := context.Background()
	p, err := stdio.Start(stdio.Command{Path: os.Args[0], Env: append(os.Environ(), childEnv+"=echoes at end of input"), Stderr: os.Stderr})
	if err != nil {
		log.Fatal(err)
	}
	if err := p.Write(ctx, transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != nil {
		log.Fatal(err)
	}
	if err := p.CloseWrite(); err != nil { // the server answers earlier messages
		log.Fatal(err)
	}
	m, err := p.Read()
	fmt.Println(string(m.Text), err)
	fmt.Println(p.Close())
	// Output:
	// {"jsonrpc":"2.0","method":"x"} <nil>
	// <nil>
}

// The framing of standard input and output over other streams of bytes.
func ExampleNew() {
	ctx := context.Background()
	a, b := net.Pipe()
	client, server := stdio.New(a, a, stdio.Options{}), stdio.New(b, b, stdio.Options{})
	defer server.Close()
	defer client.Close()
	if err := client.Write(ctx, transport.Message{Text: []byte(`{"jsonrpc":"2.0","method":"x"}`)}); err != nil {
		log.Fatal(err)
	}
	m, err := server.Read()
	fmt.Println(string(m.Text), err)
	// Output:
	// {"jsonrpc":"2.0","method":"x"} <nil>
}
