// Command proxy is one server in front of many. It reads the servers from a file in the format that
// hosts use, and serves their tools, prompts and resources over standard input and output, or over
// HTTP.
//
//	go run ./examples/proxy servers.json
//	go run ./examples/proxy -listen localhost:8080 servers.json
//
// The file names the servers. Their tools get these names as prefixes, such as files_read:
//
//	{"mcpServers": {
//		"files": {"command": "files-server", "args": ["/home/ada"], "env": {"TOKEN": "…"}},
//		"web":   {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer …"}}
//	}}
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

func main() {
	address := flag.String("listen", "", "serve HTTP at this `ADDRESS` instead of standard input and output")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: proxy [-listen ADDRESS] FILE")
	}
	if err := run(context.Background(), flag.Arg(0), *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file, address string) error {
	upstreams, err := read(file)
	if err != nil {
		return err
	}
	p, err := proxy.New("proxy", "1.0.0", &proxy.Options{Upstreams: upstreams, Server: server.Options{Logger: slog.Default()}})
	if err != nil {
		return err
	}
	if address == "" {
		err = p.ServeStdio(ctx)
	} else {
		err = p.ListenAndServe(ctx, address, nil)
	}
	return errors.Join(err, p.Close()) // waits until child processes have ended
}

// entry is a server in the file.
type entry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

// read returns the upstreams in a file, sorted by name.
func read(file string) (upstreams []proxy.Upstream, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var content struct {
		Servers map[string]entry `json:"mcpServers"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(content.Servers)) {
		e := content.Servers[name]
		switch {
		case e.Command != "" && e.URL == "":
			env := stdio.DefaultEnv()
			for key, value := range e.Env {
				env = append(env, key+"="+value)
			}
			upstreams = append(upstreams, proxy.Command(name, stdio.Command{Path: e.Command, Args: e.Args, Env: env, Stderr: os.Stderr}))
		case e.URL != "" && e.Command == "":
			header := http.Header{}
			for key, value := range e.Headers {
				header.Set(key, value)
			}
			upstreams = append(upstreams, proxy.Dial(name, e.URL, streamable.ClientOptions{Options: httpclient.Options{Header: header}}))
		default:
			return nil, fmt.Errorf("%s: server %q: want either a command or a url", file, name)
		}
	}
	return upstreams, nil
}
