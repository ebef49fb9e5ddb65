package main

import (
	"context"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

func init() {
	for _, m := range messages.All() {
		if m.Form == messages.BareTask {
			continue
		}
		decode := func() (jsonrpc.Message, error) {
			if m.Form == messages.Response {
				response, err := mcp.DecodeResponse(m.Method, m.Data)
				return response, err
			}
			request, err := mcp.DecodeRequest(m.Data)
			return request, err
		}
		add := func(name string, do func() error) {
			benchmarks = append(benchmarks, benchmark{name: name, open: func(context.Context) (func() error, func() error, error) {
				return func() error { // one operation takes too little to look at the clock after it
					for range 10 {
						if err := do(); err != nil {
							return err
						}
					}
					return nil
				}, func() error { return nil }, nil
			}})
		}
		add("10 × decode "+m.Name, func() error {
			_, err := decode()
			return err
		})
		var buf []byte
		message, err := decode()
		add("10 × encode "+m.Name, func() error {
			if err != nil {
				return err
			}
			buf, err = message.AppendJSON(buf[:0])
			return err
		})
	}
}
