// Command bench compares the codec with other Go libraries.
//
//	go run . codec            tables of decoding and encoding speed, by message
//	go run . codec -json      the same as JSON
//	go run . values           tables of the speed for values of any Go type, by engine
//	go run . size             build time and size of a program that imports package mcp
//	go test -bench .          the same measurements for benchstat
//
// # What is measured
//
// The messages are in messages.go. The first set is that of the published table. The second set is
// "unseen": the codec is not tuned for it, so that it shows whether an improvement is general.
//
// Decoding converts the bytes of a message to typed values, including the envelope. Encoding is the
// reverse. mcpwire uses the functions that every user calls, and reuses the buffer for encoding.
// The SDKs decode with the types and functions of their own sessions, in as few passes as possible.
// A general engine decodes into plain structs with the same fields (plain.go), in two passes, first
// the envelope and then the payload. Members that the schema leaves open stay raw, and a
// discriminator selects the variant of a union. The two fastest engines are also measured tuned:
// with each union as one struct of all members (flat.go), and with the fastest options under which
// they still validate. loss_test.go lists and checks the data that each library loses.
//
// "Envelope" decodes a message far enough to know its kind, and keeps the payload raw. A scan is
// jx.Decoder.Skip: it checks the grammar and keeps nothing, and is therefore a limit for decoding.
//
// For each message, all contestants take turns of some milliseconds. The result is the median turn.
// Ratios are medians of the quotients of turns in the same round. Time is processor time, if the
// system reports it, and all work runs on one processor, including garbage collection. So results
// hold on a machine with other load. With -wall, time is clock time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "codec":
			return runCodec(args[1:], os.Stdout, os.Stderr)
		case "values":
			return runValues(args[1:], os.Stdout, os.Stderr)
		case "size":
			return runSize(args[1:], os.Stdout, os.Stderr)
		}
	}
	return errors.New("usage: go run . codec|values|size [flags]; -help after one lists its flags")
}
