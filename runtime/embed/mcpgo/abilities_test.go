package mcpgo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/mcpwire/mcpwire/runtime/embed/internal/embedding"
)

// The session of a task implements every interface of the SDK for sessions.
func TestSessionOfTaskIsComplete(t *testing.T) {
	all := map[string]reflect.Type{
		"ClientSession":                       reflect.TypeFor[server.ClientSession](),
		"SessionWithClientInfo":               reflect.TypeFor[server.SessionWithClientInfo](),
		"SessionWithElicitation":              reflect.TypeFor[server.SessionWithElicitation](),
		"SessionWithLogging":                  reflect.TypeFor[server.SessionWithLogging](),
		"SessionWithProtocolVersion":          reflect.TypeFor[server.SessionWithProtocolVersion](),
		"SessionWithResourceSubscriptions":    reflect.TypeFor[server.SessionWithResourceSubscriptions](),
		"SessionWithResourceSubscriptionsErr": reflect.TypeFor[server.SessionWithResourceSubscriptionsErr](),
		"SessionWithResourceTemplates":        reflect.TypeFor[server.SessionWithResourceTemplates](),
		"SessionWithResources":                reflect.TypeFor[server.SessionWithResources](),
		"SessionWithRoots":                    reflect.TypeFor[server.SessionWithRoots](),
		"SessionWithSampling":                 reflect.TypeFor[server.SessionWithSampling](),
		"SessionWithStreamableHTTPConfig":     reflect.TypeFor[server.SessionWithStreamableHTTPConfig](),
		"SessionWithSubscriptionFilter":       reflect.TypeFor[server.SessionWithSubscriptionFilter](),
		"SessionWithTools":                    reflect.TypeFor[server.SessionWithTools](),
	}
	for name, ability := range all {
		if !reflect.TypeFor[*taskSession]().Implements(ability) {
			t.Errorf("the session of a task is no %s", name)
		}
	}
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/mark3labs/mcp-go/server").Output()
	if err != nil {
		t.Skip("without the go command:", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	found := []string{"ClientSession"}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && strings.HasPrefix(spec.Name.Name, "SessionWith") {
				found = append(found, spec.Name.Name)
			}
			return true
		})
	}
	slices.Sort(found)
	if known := slices.Sorted(maps.Keys(all)); !slices.Equal(found, known) {
		t.Errorf("the SDK has %v, want %v", found, known)
	}
}

// clientSession is a session with tools, resources, templates and subscriptions.
type clientSession struct {
	server.ClientSession
	level      mcp.LoggingLevel
	tools      map[string]server.ServerTool
	resources  map[string]server.ServerResource
	templates  map[string]server.ServerResourceTemplate
	subscribed []string
	filter     mcp.SubscriptionFilter
}

func (c *clientSession) SessionID() string                                     { return "client" }
func (c *clientSession) GetLogLevel() mcp.LoggingLevel                         { return c.level }
func (c *clientSession) SetLogLevel(level mcp.LoggingLevel)                    { c.level = level }
func (c *clientSession) GetSessionTools() map[string]server.ServerTool         { return c.tools }
func (c *clientSession) SetSessionTools(tools map[string]server.ServerTool)    { c.tools = tools }
func (c *clientSession) GetSessionResources() map[string]server.ServerResource { return c.resources }
func (c *clientSession) SetSessionResources(r map[string]server.ServerResource) {
	c.resources = r
}
func (c *clientSession) GetSessionResourceTemplates() map[string]server.ServerResourceTemplate {
	return c.templates
}
func (c *clientSession) SetSessionResourceTemplates(r map[string]server.ServerResourceTemplate) {
	c.templates = r
}
func (c *clientSession) SubscribeToResource(uri string) { c.subscribed = append(c.subscribed, uri) }
func (c *clientSession) UnsubscribeFromResource(uri string) {
	c.subscribed = slices.DeleteFunc(c.subscribed, func(other string) bool { return other == uri })
}
func (c *clientSession) SubscribedResources() []string { return slices.Clone(c.subscribed) }
func (c *clientSession) IsSubscribedToResource(uri string) bool {
	return slices.Contains(c.subscribed, uri)
}
func (c *clientSession) SetSubscriptionFilter(f mcp.SubscriptionFilter) { c.filter = f }
func (c *clientSession) SubscriptionFilter() (mcp.SubscriptionFilter, bool) {
	return c.filter, true
}

// What a handler sets in the session of a task is set in that of the client.
func TestSessionOfTaskChangesThatOfClient(t *testing.T) {
	s := server.NewMCPServer("s", "1")
	required := mcp.NewTool("required")
	required.Execution = &mcp.ToolExecution{TaskSupport: mcp.TaskSupportRequired}
	s.AddTool(required, nil)
	for _, row := range []struct {
		name   string
		client *clientSession // nil after a restart
	}{
		{"session of the client", &clientSession{level: mcp.LoggingLevelError, tools: map[string]server.ServerTool{"own": {Tool: required}}}},
		{"after a restart", nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, name := range []string{"required", "own"} {
				ctx := t.Context()
				if row.client != nil {
					ctx = s.WithContext(ctx, row.client)
				}
				session, _, err := newTaskSession(ctx, s, &embedding.Call{Params: []byte(`{"name":"` + name + `"}`), ID: "client"})
				if err != nil {
					t.Fatal(err)
				}
				if tool, ok := session.GetSessionTools()[name]; ok && tool.Tool.Execution != nil {
					t.Errorf("%s: the SDK rejects the call", name)
				}
				tools := session.GetSessionTools()
				if tools == nil {
					tools = map[string]server.ServerTool{}
				}
				tools["new"] = server.ServerTool{Tool: mcp.NewTool("new")}
				session.SetSessionTools(tools)
				session.SetSessionResources(map[string]server.ServerResource{"file:///a": {}})
				session.SetSessionResourceTemplates(map[string]server.ServerResourceTemplate{"file:///{b}": {}})
				session.SetLogLevel(mcp.LoggingLevelDebug)
				err = session.SubscribeToResourceErr("file:///a")
				session.SubscribeToResource("file:///b")
				session.UnsubscribeFromResource("file:///b")
				session.SetSubscriptionFilter(mcp.SubscriptionFilter{})
				got := fmt.Sprintln(session.GetSessionTools()["new"].Tool.Name, len(session.GetSessionResources()), len(session.GetSessionResourceTemplates()), session.GetLogLevel())
				if got != "new 1 1 debug\n" {
					t.Errorf("the session has %q", got)
				}
				if row.client == nil {
					if err == nil || !strings.Contains(err.Error(), "server.SessionWithResourceSubscriptions") || session.IsSubscribedToResource("file:///a") {
						t.Errorf("subscription: got %v", err)
					}
					continue
				}
				c := row.client
				if names := slices.Sorted(maps.Keys(c.tools)); !slices.Equal(names, []string{"new", "own"}) || c.tools["own"].Tool.Execution == nil {
					t.Errorf("%s: the client has the tools %v", name, c.tools)
				}
				if len(c.resources) != 1 || len(c.templates) != 1 || c.level != mcp.LoggingLevelDebug || err != nil || !session.IsSubscribedToResource("file:///a") || len(session.SubscribedResources()) != 1 {
					t.Errorf("%s: the client has %+v, %v", name, c, err)
				}
				if _, ok := session.SubscriptionFilter(); !ok {
					t.Errorf("%s: no subscription filter", name)
				}
				*c = clientSession{tools: map[string]server.ServerTool{"own": {Tool: required}}}
			}
		})
	}
}
