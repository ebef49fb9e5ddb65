package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// CodeURLElicitationRequired refuses a request until the user has visited a page (MCP elicitation, "URL Elicitation
// Required Error").
const CodeURLElicitationRequired = -32042

// ErrAnswer says that the client has answered a question with what does not comply with it.
var ErrAnswer = errors.New("server: the answer does not comply with the question")

// Elicit asks the user to fill in a form, whose fields are those of the struct T: strings, numbers and booleans (MCP
// elicitation, "Form Mode Elicitation"). Those that are not zero are proposed. If the user accepts, fields has what was
// filled in; otherwise it stays as it is. See [Call.ElicitForm] for choices and other constraints, and for the
// errors. Never ask for secrets in a form.
func Elicit[T any](ctx context.Context, c *Call, message string, fields *T) (mcp.ElicitAction, error) {
	params, err := formOf(message, fields)
	if err != nil {
		return "", err
	}
	result, err := c.ElicitForm(ctx, params)
	if err != nil || result.Action != mcp.ElicitActionAccept {
		return actionOf(result), err
	}
	text, err := codec.Marshal(result)
	if err != nil {
		return "", err
	}
	var answer struct {
		Content *T `json:"content"`
	}
	answer.Content = new(*fields)
	if err := codec.Unmarshal(text, value.Of(&answer)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	*fields = *answer.Content
	return result.Action, nil
}

func actionOf(result *mcp.ElicitResult) mcp.ElicitAction {
	if result == nil {
		return ""
	}
	return result.Action
}

// formOf returns the question for a struct.
func formOf[T any](message string, fields *T) (*mcp.ElicitRequestFormParams, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct || fields == nil {
		return nil, fmt.Errorf("server: a form is a pointer to a struct, not a %v", reflect.TypeOf(fields))
	}
	text, err := schemaOf(t, reading)
	if err != nil {
		return nil, err
	}
	values, err := codec.Marshal(value.Of(fields))
	if err != nil {
		return nil, err
	}
	zero, err := codec.Marshal(value.Of(new(T)))
	if err != nil {
		zero = json.RawMessage(`{}`) // a type may have no text for its zero value
	}
	if text, err = withDefaults(text, values, zero); err != nil {
		return nil, err
	}
	params := &mcp.ElicitRequestFormParams{Message: message}
	if err := codec.Unmarshal(text, &params.RequestedSchema); err != nil {
		return nil, err
	}
	params.RequestedSchema.Extra.Delete("additionalProperties") // which forms do not have
	return params, nil
}

// withDefaults adds values that are not zero to the properties of a schema as defaults.
func withDefaults(schema, values, zero json.RawMessage) (json.RawMessage, error) {
	var s, v, z map[string]any
	if err := errors.Join(codec.Unmarshal(schema, value.Of(&s)), codec.Unmarshal(values, value.Of(&v)), codec.Unmarshal(zero, value.Of(&z))); err != nil {
		return nil, err
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		property, ok := p.(map[string]any)
		if ok && v[name] != nil && !reflect.DeepEqual(v[name], z[name]) {
			property["default"] = v[name]
		}
	}
	return codec.Marshal(value.Of(s))
}

// ElicitForm asks the user to fill in a form. The schema must be flat. No field may have the name
// of a secret, such as userPassword, api_key, accessToken or cardNumber; tokenCount is allowed. It
// fails with a [*session.CapabilityError] if the client has no forms, with an error that wraps
// [ErrAnswer] if the answer does not comply with the schema, with [session.ErrTimeout] after
// [Config.InputTimeout], and with a [*jsonrpc.Error] if the client answers with one.
func (c *Call) ElicitForm(ctx context.Context, params *mcp.ElicitRequestFormParams) (*mcp.ElicitResult, error) {
	sent, err := c.form(params)
	if err != nil {
		return nil, err
	}
	result, err := c.elicit(ctx, sent)
	if err != nil || result.Action != mcp.ElicitActionAccept {
		return result, err
	}
	if err := form.Check(&params.RequestedSchema, result.Content); err != nil {
		return result, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return result, nil
}

// form returns a form as it is sent to the client. It fails if the client does not support forms,
// or if the form must not be sent.
func (c *Call) form(params *mcp.ElicitRequestFormParams) (*mcp.ElicitRequestFormParams, error) {
	if params == nil {
		return nil, errors.New("server: nil form")
	}
	if err := params.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: invalid form: %w", err)
	}
	for name, p := range params.RequestedSchema.Properties {
		if _, unknown := p.(*mcp.Unknown); unknown {
			return nil, fmt.Errorf("server: invalid form: the field %q is of no primitive type", name)
		}
		if secret(name) {
			return nil, fmt.Errorf("server: invalid form: the field %q asks for a secret, which is what ElicitURL is for", name)
		}
	}
	if err := c.mayElicit("form"); err != nil {
		return nil, err
	}
	return c.projectForm(params)
}

// ElicitTask asks the user to fill in a form as [Call.ElicitForm] does, as a task of the client: it returns once the
// client has created the task, and the answer is awaited by Result of the handle, for as long as the client keeps the
// task. It fails with a [*session.CapabilityError] if the client does not run elicitations as tasks. Check the content
// of an answer with [form.Check].
func (c *Call) ElicitTask(ctx context.Context, params *mcp.ElicitRequestFormParams, options ...requestor.Option) (*requestor.Handle[*mcp.ElicitResult], error) {
	sent, err := c.form(params)
	if err != nil {
		return nil, err
	}
	open, err := c.taskSession(mcp.MethodElicitationCreate, "tasks.requests.elicitation.create")
	if err != nil {
		return nil, err
	}
	return c.p.s.clientTasks.Elicit(ctx, open, sent, options...)
}

// elicit asks, and waits for the answer.
func (c *Call) elicit(ctx context.Context, params mcp.ElicitRequestParams) (*mcp.ElicitResult, error) {
	outcome, err := c.client().Elicit(ctx, params)
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.ElicitResult)
	if !ok || !isAnswer(result) {
		return nil, fmt.Errorf("%w: invalid result of elicitation", ErrAnswer)
	}
	return result, nil
}

// isAnswer reports whether the action and the values of a result are defined by the protocol. The
// schema of revision 2025-11-25 is stricter: it admits no fractions in answers, although forms may
// have number fields.
func isAnswer(result *mcp.ElicitResult) bool {
	switch result.Action {
	case mcp.ElicitActionAccept, mcp.ElicitActionDecline, mcp.ElicitActionCancel:
	default:
		return false
	}
	for _, v := range result.Content {
		switch v.(type) {
		case *mcp.ElicitResultContentValueScalar, *mcp.ElicitResultContentValueList:
		default:
			return false
		}
	}
	return true
}

// mayElicit refuses a mode that the client has not declared, as far as that is known.
func (c *Call) mayElicit(mode string) error {
	client := c.capabilities()
	if client == nil {
		return nil
	}
	declared := client.Elicitation != nil
	if declared && mode == "url" {
		declared = client.Elicitation.URL != nil && c.Session().Revision().Defines("ElicitRequestURLParams")
	}
	if declared && mode == "form" {
		declared = client.Elicitation.Form != nil || client.Elicitation.URL == nil
	}
	if declared {
		return nil
	}
	return &session.CapabilityError{Method: mcp.MethodElicitationCreate, Capability: "elicitation." + mode, Revision: c.Session().Revision()}
}

// projectForm returns a form as the revision of the session has it.
func (c *Call) projectForm(params *mcp.ElicitRequestFormParams) (*mcp.ElicitRequestFormParams, error) {
	if c.Session() == nil || c.Session().Revision().Defines("LegacyTitledEnumSchema") {
		return params, nil
	}
	out := *params
	out.Mode, out.Task = nil, nil
	out.RequestedSchema.Schema = nil
	out.RequestedSchema.Properties = map[string]mcp.PrimitiveSchemaDefinition{}
	for name, p := range params.RequestedSchema.Properties {
		old, err := projectField(p)
		if err != nil {
			return nil, fmt.Errorf("server: the field %q: %w", name, err)
		}
		out.RequestedSchema.Properties[name] = old
	}
	return &out, nil
}

// projectField returns a field as revision 2025-06-18 has it.
func projectField(p mcp.PrimitiveSchemaDefinition) (mcp.PrimitiveSchemaDefinition, error) {
	switch p := p.(type) {
	case *mcp.StringSchema:
		out := *p
		out.Default = nil
		return &out, nil
	case *mcp.NumberSchema:
		out := *p
		out.Default = nil
		return &out, nil
	case *mcp.TitledSingleSelectEnumSchema:
		out := &mcp.LegacyTitledEnumSchema{Title: p.Title, Description: p.Description}
		for _, choice := range p.OneOf {
			out.Enum, out.EnumNames = append(out.Enum, choice.Const), append(out.EnumNames, choice.Title)
		}
		return out, nil
	case *mcp.UntitledMultiSelectEnumSchema, *mcp.TitledMultiSelectEnumSchema:
		return nil, errors.New("the revision of the session has no multiple choices")
	}
	return p, nil
}

// elicitation is a page that a user was asked to visit.
type elicitation struct {
	principal string
	task      *task.Run // that has asked, and still runs; nil for a plain call
}

// ElicitURL asks the user to visit a page, and returns whether the user agrees; what happens there does not pass
// through the client (MCP elicitation, "URL Mode Elicitation"). The page is https, or http on this machine. The id is
// what the page calls it; "" makes one. It is good for [Server.ElicitationComplete], and for
// [Server.ElicitationPrincipal], which the page needs to check that its visitor is the user who was asked. It fails
// with a [*session.CapabilityError] if the client does not open pages, and as [Call.ElicitForm] does.
func (c *Call) ElicitURL(ctx context.Context, message, page, id string) (mcp.ElicitAction, error) {
	params, err := c.visit(message, page, id)
	if err != nil {
		return "", err
	}
	if err := c.mayElicit("url"); err != nil {
		return "", err
	}
	if err := c.expect(ctx, *params.ElicitationID); err != nil {
		return "", err
	}
	result, err := c.elicit(ctx, params)
	if err != nil || result.Action != mcp.ElicitActionAccept {
		if c.p.s.nowhere.dropTaskElicitation(*params.ElicitationID) == nil {
			c.p.forget(ctx, *params.ElicitationID)
		}
	}
	return actionOf(result), err
}

// RequireURL is the error that the user has to visit a page before the request can be served; the client sends it
// again afterwards. It fails otherwise, as ElicitURL does, with the error that tells why.
func (c *Call) RequireURL(message, page, id string) error {
	params, err := c.visit(message, page, id)
	if err != nil {
		return err
	}
	if err := c.mayElicit("url"); err != nil {
		return err
	}
	if err := c.expect(c.ctx, *params.ElicitationID); err != nil {
		return err
	}
	data, err := codec.Marshal(&mcp.URLElicitationRequiredErrorErrorData{Elicitations: []mcp.ElicitRequestURLParams{*params}})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: CodeURLElicitationRequired, Message: "a page has to be visited first: " + message, Data: data}
}

func (c *Call) visit(message, page, id string) (*mcp.ElicitRequestURLParams, error) {
	u, err := url.Parse(page)
	switch {
	case err != nil:
		return nil, fmt.Errorf("server: invalid page: %w", err)
	case u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("server: invalid page %q: want https", page)
	case u.User != nil:
		return nil, errors.New("server: invalid page: it has credentials in it")
	}
	if id == "" {
		id = rand.Text()
	}
	return &mcp.ElicitRequestURLParams{Message: message, URL: page, ElicitationID: &id}, nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}

// maxElicitations is how many pages of one session, and of the running tasks of one principal, may be
// open.
const maxElicitations = 1000

// expect notes that a page is to be visited. The page of a task belongs to no session while the task
// runs: the task may outlive its session, or have none.
func (c *Call) expect(ctx context.Context, id string) error {
	e := &elicitation{principal: c.Principal()}
	run, isTask := c.Task()
	if !isTask {
		if err := c.p.claimElicitation(id, e); err != nil {
			return err
		}
		if err := c.p.keep(ctx); err != nil {
			c.p.drop(id)
			return err
		}
		return nil
	}
	e.task = run
	if err := c.p.s.nowhere.claimElicitation(id, e); err != nil {
		return err
	}
	context.AfterFunc(c.ctx, func() {
		if c.p.inheritElicitation(id, e) {
			c.p.keepLater(context.Background())
		}
	})
	return nil
}

// inheritElicitation moves the elicitation of a task that has ended to the session of the task. It
// drops the elicitation, and returns false, if the session is over.
func (p *peer) inheritElicitation(id string, e *elicitation) bool {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	from := p.s.nowhere
	from.mu.Lock()
	there := from.elicitations[id] == e
	from.mu.Unlock()
	if !there {
		return false
	}
	defer from.drop(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p == from || p.over || len(p.elicitations) >= maxElicitations {
		return false
	}
	p.noteElicitation(id, &elicitation{principal: e.principal})
	return true
}

// dropTaskElicitation takes out the elicitation of a running task; it returns nil if there is none.
func (p *peer) dropTaskElicitation(id string) *elicitation {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	return p.drop(id)
}

// claimElicitation notes an elicitation whose id no other one of the server has.
func (p *peer) claimElicitation(id string, e *elicitation) error {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	if _, taken := p.s.ElicitationPrincipal(id); taken {
		return fmt.Errorf("server: there is an elicitation %q already", id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.elicitations)
	if e.task != nil {
		n = 0
		for _, other := range p.elicitations {
			if other.principal == e.principal {
				n++
			}
		}
	}
	if n >= maxElicitations {
		return fmt.Errorf("server: %d elicitations are not complete", maxElicitations)
	}
	p.noteElicitation(id, e)
	return nil
}

// noteElicitation notes an elicitation. It is called with mu held.
func (p *peer) noteElicitation(id string, e *elicitation) {
	if p.elicitations == nil {
		p.elicitations = map[string]*elicitation{}
	}
	p.elicitations[id] = e
	p.changes++
}

// forget takes an elicitation out; it reports whether there was one.
func (p *peer) forget(ctx context.Context, id string) bool {
	there := p.drop(id) != nil
	if there {
		p.keepLater(ctx)
	}
	return there
}

// drop takes an elicitation out and returns it, or nil if there was none.
func (p *peer) drop(id string) *elicitation {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.elicitations[id]
	if e != nil {
		delete(p.elicitations, id)
		p.changes++
	}
	return e
}

// ElicitationPrincipal returns on whose behalf a page is to be visited; ok is false if there is no such elicitation,
// or it was completed or refused, or its session is over, or has not gone on yet after a restart of the server. The
// elicitation of a task does not need a session while the task runs. Whoever opens the page must be the same user.
func (s *Server) ElicitationPrincipal(id string) (principal string, ok bool) {
	for _, p := range append(s.everyPeer(), s.nowhere) {
		p.mu.Lock()
		e := p.elicitations[id]
		p.mu.Unlock()
		if e != nil {
			return e.principal, true
		}
	}
	return "", false
}

// ElicitationComplete tells the client that was asked to open a page, and no other one, that the visit is complete
// (MCP elicitation, "Completion Notifications"). While the task that has asked runs, the notification takes the way of
// the task. It does nothing if there is no such elicitation any more.
func (s *Server) ElicitationComplete(ctx context.Context, id string) error {
	if e := s.nowhere.dropTaskElicitation(id); e != nil {
		return mcp.NotifyClient{Notifier: e.task}.ElicitationComplete(ctx, &mcp.ElicitationCompleteNotificationParams{ElicitationID: id})
	}
	for _, p := range s.everyPeer() {
		open := p.session.Load()
		if open == nil || !p.forget(ctx, id) {
			continue
		}
		return mcp.NotifyClient{Notifier: open}.ElicitationComplete(ctx, &mcp.ElicitationCompleteNotificationParams{ElicitationID: id})
	}
	return nil
}
