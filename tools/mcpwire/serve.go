package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/everything"
)

// serve returns the command serve.
func serve() command {
	return command{
		name:  "serve",
		args:  "[-http ADDRESS] [-auth trial [-auth-approve]] [-store FILE] [-debug ADDRESS]",
		short: "run a server with every feature, to test clients",
		help: `
Runs a server with every feature of the protocol on standard input and output, or over HTTP with
-http. It keeps tasks in memory, or in a file with -store. With -debug, a web page shows the tasks of
all clients. Anyone who can reach the address can read the page and cancel tasks.

To test the login of clients, use -auth trial. Clients must then log in at an authorization server in
this process. It asks for no password, and its tokens are valid until the process exits. All requests
need the scope read. The tools test_trigger_tool_change and test_trigger_prompt_change also need the
scope write. With -auth-approve, logins succeed without a page.

Examples:

  mcpwire serve -http localhost:8080 -store tasks.db -debug localhost:6060
  mcpwire serve -http localhost:8080 -auth trial
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			address := flags.String("http", "", "serve over HTTP at `ADDRESS` and the path /mcp; without a host, only clients on this machine can connect")
			file := flags.String("store", "", "store tasks in `FILE`")
			debug := flags.String("debug", "", "show all tasks on a web page at `ADDRESS` and the path /tasks; without a host, only clients on this machine can connect")
			kind := flags.String("auth", "", "demand authorization of `KIND`; trial runs an authorization server for tests")
			approve := flags.Bool("auth-approve", false, "approve logins without a page")
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case len(args) > 0:
					return usagef("unexpected argument %q", args[0])
				case *kind != "" && *kind != "trial":
					return usagef("-auth %q is not supported: use trial", *kind)
				case *kind != "" && *address == "":
					return usagef("-auth needs -http")
				case *kind == "" && *approve:
					return usagef("-auth-approve needs -auth")
				}
				store, err := openStore(*file)
				if err != nil {
					return err
				}
				defer store.Close()
				service, err := newService(ctx, store, *address != "")
				if err != nil {
					return err
				}
				defer service.server.Close()
				if *debug != "" {
					stop, err := service.showTasks(s, *debug)
					if err != nil {
						return err
					}
					defer stop()
				}
				if *address == "" {
					return service.serveStdio(ctx)
				}
				if *kind != "" {
					return service.serveTrial(ctx, s, *address, *approve)
				}
				return service.serveHTTP(ctx, s, *address)
			}
		},
	}
}

func openStore(file string) (task.Store, error) {
	if file == "" {
		return memory.New(), nil
	}
	return bolt.Open(file)
}

// service is the server and the data of the page for operators.
type service struct {
	server  *server.Server
	store   task.Store
	history *debugpage.History
}

func newService(ctx context.Context, store task.Store, overHTTP bool) (*service, error) {
	module, _ := build()
	cfg, disconnect := session.Options{Principal: "local"}, func(context.Context) bool { return false }
	if overHTTP {
		cfg, disconnect = session.Options{}, streamable.Disconnect
	}
	history := debugpage.NewHistory(0)
	server, err := everything.New(module, store, task.Options{Hooks: task.Hooks{Audit: history.Add}}, cfg, disconnect)
	if err == nil {
		err = server.Start(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &service{server, store, history}, nil
}

// showTasks serves the page of the tasks until stop is called. It prints the URL to standard error,
// because the server may use standard output for messages.
func (v *service) showTasks(s streams, address string) (stop func(), err error) {
	listener, err := listen(address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/tasks", debugpage.New(debugpage.Of(v.server.Tasks(), v.store, v.history)))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(s.err, "tasks at http://%s/tasks\n", listener.Addr())
	ended := make(chan struct{})
	go func() { // ends with Close
		defer close(ended)
		web.Serve(listener)
	}()
	return func() {
		web.Close()
		<-ended
	}, nil
}

// listen listens on a TCP address. Without a host it listens on localhost only.
func listen(address string) (net.Listener, error) {
	if strings.HasPrefix(address, ":") {
		address = "localhost" + address
	}
	return net.Listen("tcp", address)
}

func (v *service) serveStdio(ctx context.Context) error {
	return v.server.Run(ctx, stdio.Server(stdio.Options{}))
}

func (v *service) serveHTTP(ctx context.Context, s streams, address string) error {
	listener, err := listen(address)
	if err != nil {
		return err
	}
	origin := "http://" + listener.Addr().String()
	return v.serveOn(ctx, s, listener, origin, nil, func(next http.Handler) http.Handler { return next })
}

// serveOn serves on a listener, which clients reach at origin. wrap wraps the handler of all paths.
// protector may be nil.
func (v *service) serveOn(ctx context.Context, s streams, listener net.Listener, origin string, protector *auth.Protector, wrap func(http.Handler) http.Handler) error {
	handler, err := v.server.Handler(&streamable.HandlerOptions{Streams: streamable.Streams{After: -1}, Auth: protector})
	if err != nil {
		listener.Close()
		return err
	}
	defer handler.Close()
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: wrap(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Fprintf(s.out, "serving at %s/mcp\n", origin)
	return serveWeb(ctx, web, listener, handler.Shutdown)
}

// scopeRead is the scope that all requests of a protected server need.
const scopeRead = "read"

// serveTrial serves clients that log in at a trial authorization server at the same address.
func (v *service) serveTrial(ctx context.Context, s streams, address string, approve bool) error {
	listener, err := listen(address)
	if err != nil {
		return err
	}
	defer listener.Close()
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return usagef("-auth trial needs an address of this machine, such as -http localhost:8080")
	}
	// Clients must know the server by the host of its metadata: the one that the user has given.
	host, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	if given, _, _ := net.SplitHostPort(address); given == "" || given == "localhost" {
		host = "localhost"
	}
	origin := "http://" + net.JoinHostPort(host, port)
	resource, issuer := origin+"/mcp", origin+"/auth"
	logins, err := trial.New(trial.Options{
		Issuer: issuer, Resources: []string{resource}, Scopes: []string{scopeRead, everything.ScopeWrite}, Approve: approve,
	})
	if err != nil {
		return err
	}
	protector, err := auth.NewProtector(auth.Options{
		Resource: resource, Issuers: []string{issuer}, Verifier: logins, Scopes: []string{scopeRead},
		Metadata: auth.ResourceMetadata{ScopesSupported: []string{scopeRead, everything.ScopeWrite}},
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.err, "trial authorization server at %s: for tests only; its tokens are valid until the process exits\n", issuer)
	return v.serveOn(ctx, s, listener, origin, protector, func(next http.Handler) http.Handler {
		return logins.Handler(protector.Handler(next))
	})
}

// serveWeb serves until ctx ends. Then it calls shutdown and shuts down the web server.
func serveWeb(ctx context.Context, web *http.Server, listener net.Listener, shutdown func(context.Context) error) error {
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }() // ends with Close
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := errors.Join(shutdown(grace), web.Shutdown(grace))
	<-ended
	return err
}
