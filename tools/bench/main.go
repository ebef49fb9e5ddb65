// Command bench measures the codec beside other Go libraries.
//
//	go run . codec            how fast messages are decoded and encoded, as tables
//	go run . codec -json      the same for machines
//	go run . values           how fast values of types known at run time only are, by engine
//	go run . size             what package mcp costs a program that imports it
//	go test -bench .          the same measurements for benchstat
//
// # What is measured
//
// The messages are made in code; messages.go has them. The first set is the one that the published table shows. The
// second is "unseen": nobody tunes the codec for it, so that it shows what a gain is worth elsewhere.
//
// To decode is to go from the bytes of a message to typed values, envelope included. To encode is the way back. For
// mcpwire both are the functions that every user calls; the buffer to encode into is used again. The SDKs decode with
// the types and functions that their own sessions use, in no more passes than they need. A general engine decodes
// into plain structs with the same fields (plain.go), in two passes, first the envelope and then the payload; what
// the schema leaves open stays raw, and a union is told by its discriminator. The two fastest engines take part a
// second time, tuned: with a union as one struct of all members (flat.go), and with the fastest options under which
// they still validate. What a library loses on the way is written down, and checked, in loss_test.go.
//
// "Envelope" is to read a message only as far as to know what it is, with the payload raw. A scan is jx.Decoder.Skip:
// it checks the grammar and keeps nothing, and so is what decoding could at best come near to.
//
// All contestants with one message take turns of some milliseconds, and what counts is the median turn. Ratios are
// medians, too: of the quotients of turns in the same round. Time is that which the process has a processor, where
// the system tells it, and all work is done on one, garbage collection included. So results hold on a machine that
// others use as well. With -wall, time is that on the clock.
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
