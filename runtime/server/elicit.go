package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/requestor"
)

// CodeURLElicitationRequired is the error code of a request that the server cannot serve before the
// user has visited a page (MCP elicitation, "URL Elicitation Required Error").
const CodeURLElicitationRequired = -32042

// ErrAnswer reports that the client's response does not comply with the input request.
var ErrAnswer = errors.New("server: response does not comply with the input request")

// Elicit asks the user to fill in a form with the fields of the struct T: strings, numbers,
// booleans and, with the tag enum, lists of strings (MCP elicitation, "Form Mode Elicitation"). The
// form has the choices, limits, formats and titles of the tags that [SchemaFor] describes. Tags
// that forms do not have, such as multipleOf, are errors. Values that are not zero are the defaults
// of the form; for other fields, the tag default applies. Defaults and limits of numbers are
// float64 values: use strings for integers beyond 2^53. If the user accepts, Elicit sets fields to
// the values of the form; otherwise fields does not change. See [Call.ElicitForm] for choices with
// titles, and for the errors. Never ask for secrets in a form.
func Elicit[T any](ctx context.Context, c *Call, message string, fields *T) (mcp.ElicitAction, error) {
	params, err := formParams(message, fields, c.p.s)
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
	var filled struct {
		Content *T `json:"content"`
	}
	filled.Content = schemas.CopyWithout(fields, result.Content)
	if err := codec.Unmarshal(text, value.Of(&filled)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	*fields = *filled.Content
	return result.Action, nil
}

// Confirm asks the user to agree, with a form without fields: it returns true if the user accepts,
// and false if the user declines or dismisses the form. See [Call.ElicitForm] for the errors. To
// tell decline from dismissal, call [Elicit] with an empty struct.
func Confirm(ctx context.Context, c *Call, message string) (bool, error) {
	action, err := Elicit(ctx, c, message, &struct{}{})
	return err == nil && action == mcp.ElicitActionAccept, err
}

func actionOf(result *mcp.ElicitResult) mcp.ElicitAction {
	if result == nil {
		return ""
	}
	return result.Action
}

// formParams returns the params of a form with the fields of a struct.
func formParams[T any](message string, fields *T, s *Server) (*mcp.ElicitRequestFormParams, error) {
	t := reflect.TypeFor[T]()
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("server: elicit: want a pointer to a struct, got %T", fields)
	}
	if fields == nil {
		return nil, fmt.Errorf("server: elicit: nil %T", fields)
	}
	f, err := s.formOf(t, new(T))
	if err != nil {
		return nil, err
	}
	values, err := codec.Marshal(value.Of(fields))
	if err != nil {
		return nil, err
	}
	params := &mcp.ElicitRequestFormParams{Message: message}
	params.RequestedSchema, err = f.With(values)
	return params, err
}

// formOf returns the form for a type, which has the zero value.
func (s *Server) formOf(t reflect.Type, zero any) (*schemas.Form, error) {
	if f, ok := s.forms.Load(t); ok {
		return f.(*schemas.Form), nil
	}
	f, err := schemas.NewForm(t, zero, definitions(s.cfg.Features.Types))
	if err != nil {
		return nil, fmt.Errorf("server: elicit: %w", err)
	}
	s.forms.Store(t, f)
	return f, nil
}

// ElicitForm asks the user to fill in a form. The schema must be flat. No field may have the name
// of a secret, such as userPassword, api_key, accessToken or cardNumber; tokenCount is allowed. It
// fails with a [*session.CapabilityError] if the client does not support forms, with an error that
// wraps [ErrAnswer] if the response does not comply with the schema, with [session.ErrTimeout]
// after [Limits.InputTimeout], and with a [*jsonrpc.Error] if the client responds with one. In
// revisions without sessions, it fails with an [*InputRequiredError] until there is a response.
//
// If the deadline of ctx passes, or ctx is cancelled, the form is withdrawn, and ElicitForm returns
// an error that wraps [context.DeadlineExceeded] or [context.Canceled]. Where the handler runs
// again, that is recorded like a response: later runs get the same error, and keep the deadline of
// the first one. In revisions without sessions, a response in the round after the deadline still
// counts. [Call.ElicitURL], [Call.Sample] and [Call.Roots] do the same.
func (c *Call) ElicitForm(ctx context.Context, params *mcp.ElicitRequestFormParams) (*mcp.ElicitResult, error) {
	result, err := c.elicitForm(ctx, params)
	if err != nil || result.Action != mcp.ElicitActionAccept {
		return result, err
	}
	if err := schemas.CheckForm(&params.RequestedSchema, result.Content); err != nil {
		return result, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return result, nil
}

// elicitForm sends a form to the client and returns the result.
func (c *Call) elicitForm(ctx context.Context, params *mcp.ElicitRequestFormParams) (*mcp.ElicitResult, error) {
	if params != nil && c.replays() {
		return c.elicitInResult(ctx, params, false, func() (mcp.ElicitRequestParams, error) { return c.prepareForm(params) })
	}
	sent, err := c.prepareForm(params)
	if err != nil {
		return nil, err
	}
	return c.elicit(ctx, sent)
}

// elicitInResult sends an elicitation in the result of a plain modern call; see [Call.ask].
func (c *Call) elicitInResult(ctx context.Context, params codec.Encoder, transient bool, prepare func() (mcp.ElicitRequestParams, error)) (*mcp.ElicitResult, error) {
	answer, err := c.ask(ctx, mcp.MethodElicitationCreate, params, transient, func() (mcp.InputRequest, error) {
		sent, err := prepare()
		if err != nil {
			return nil, err
		}
		return &mcp.ElicitRequest{Params: sent}, nil
	})
	if err != nil {
		return nil, err
	}
	result := new(mcp.ElicitResult)
	if err := codec.Unmarshal(answer, result, codec.AllowSize(answer)...); err != nil || !modern.IsElicitResult(result) {
		return nil, fmt.Errorf("%w: invalid result of elicitation", ErrAnswer)
	}
	return result, nil
}

// prepareForm checks a form and converts it to the revision of the session. It fails if the form is
// invalid or the client does not support forms.
func (c *Call) prepareForm(params *mcp.ElicitRequestFormParams) (*mcp.ElicitRequestFormParams, error) {
	if params == nil {
		return nil, errors.New("server: elicit: nil form")
	}
	if err := params.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: elicit: invalid form: %w", err)
	}
	for name, p := range params.RequestedSchema.Properties {
		if _, unknown := p.(*mcp.Unknown); unknown {
			return nil, fmt.Errorf("server: elicit: invalid form: field %q: type is not primitive", name)
		}
		if isSecretName(name) {
			return nil, fmt.Errorf("server: elicit: invalid form: field %q is a secret; use ElicitURL", name)
		}
	}
	if err := c.checkElicitation("form"); err != nil {
		return nil, err
	}
	return c.projectForm(params)
}

// ElicitTask is [Call.ElicitForm] as a task of the client. It returns once the client has created
// the task; Result of the handle waits for the response, for as long as the client keeps the task.
// ElicitTask fails with a [*session.CapabilityError] if the client does not run elicitations as
// tasks. The content of the response is not validated: check it with [form.Check].
func (c *Call) ElicitTask(ctx context.Context, params *mcp.ElicitRequestFormParams, options ...requestor.Option) (*requestor.Handle[*mcp.ElicitResult], error) {
	sent, err := c.prepareForm(params)
	if err != nil {
		return nil, err
	}
	sess, err := c.taskSession(mcp.MethodElicitationCreate, "tasks.requests.elicitation.create")
	if err != nil {
		return nil, err
	}
	return c.p.s.clientTasks.Elicit(ctx, sess, sent, options...)
}

// elicit sends an elicitation to the client and returns its result.
func (c *Call) elicit(ctx context.Context, params mcp.ElicitRequestParams) (*mcp.ElicitResult, error) {
	var outcome mcp.ElicitOutcome
	err := c.recording().Direct(ctx, mcp.MethodElicitationCreate, func() (err error) {
		outcome, err = c.client().Elicit(ctx, params)
		return err
	})
	if err != nil {
		return nil, err
	}
	result, ok := outcome.(*mcp.ElicitResult)
	if !ok || !modern.IsElicitResult(result) {
		return nil, fmt.Errorf("%w: invalid result of elicitation", ErrAnswer)
	}
	return result, nil
}

// checkElicitation rejects a mode that the client has not declared. If the capabilities of the
// client are unknown, it returns nil.
func (c *Call) checkElicitation(mode string) error {
	client := c.ClientCapabilities()
	if client == nil {
		return nil
	}
	declared := client.Elicitation != nil
	if declared && mode == "url" {
		declared = client.Elicitation.URL != nil && c.Revision().Defines("ElicitRequestURLParams")
	}
	if declared && mode == "form" {
		declared = client.Elicitation.Form != nil || client.Elicitation.URL == nil
	}
	if declared {
		return nil
	}
	return &session.CapabilityError{Method: mcp.MethodElicitationCreate, Capability: "elicitation." + mode, Revision: c.Revision()}
}

// projectForm converts a form to the revision of the session.
func (c *Call) projectForm(params *mcp.ElicitRequestFormParams) (*mcp.ElicitRequestFormParams, error) {
	if c.Session() == nil && !c.traits().InputInResults {
		return params, nil
	}
	rev := c.Revision()
	if rev.Defines("LegacyTitledEnumSchema") {
		return mcp.Project(rev, params), nil
	}
	out := *params
	out.RequestedSchema.Properties = map[string]mcp.PrimitiveSchemaDefinition{}
	for name, p := range params.RequestedSchema.Properties {
		old, err := projectField(p)
		if err != nil {
			return nil, fmt.Errorf("server: elicit: field %q: %w", name, err)
		}
		out.RequestedSchema.Properties[name] = old
	}
	return mcp.Project(rev, &out), nil
}

// projectField converts a choice to revision 2025-06-18, which has one form for all choices.
func projectField(p mcp.PrimitiveSchemaDefinition) (mcp.PrimitiveSchemaDefinition, error) {
	switch p := p.(type) {
	case *mcp.UntitledSingleSelectEnumSchema:
		return &mcp.LegacyTitledEnumSchema{Title: p.Title, Description: p.Description, Enum: p.Enum}, nil
	case *mcp.TitledSingleSelectEnumSchema:
		out := &mcp.LegacyTitledEnumSchema{Title: p.Title, Description: p.Description}
		for _, choice := range p.OneOf {
			out.Enum, out.EnumNames = append(out.Enum, choice.Const), append(out.EnumNames, choice.Title)
		}
		return out, nil
	case *mcp.UntitledMultiSelectEnumSchema, *mcp.TitledMultiSelectEnumSchema:
		return nil, errors.New("revision of the session has no fields with multiple choices")
	}
	return p, nil
}

// elicitation is an open URL elicitation: a page that a user was asked to visit.
type elicitation struct {
	principal string
	task      *task.Run // the running task that sent it; nil for a plain call
}

// ElicitURL asks the user to visit a page, and returns whether the user agrees. The input of the
// page does not pass through the client (MCP elicitation, "URL Mode Elicitation"). The URL of the
// page is https, or http on this machine, without credentials. "{id}" in it stands for the id of
// the elicitation, which [Server.ElicitationPrincipal] and [Server.ElicitationComplete] take; id ""
// has the server generate one. The page must check that its visitor is the principal of the
// elicitation. ElicitURL fails with a [*session.CapabilityError] if the client does not support URL
// elicitation, and otherwise as [Call.ElicitForm] does.
//
// In revisions without sessions, a generated id holds the principal in sealed form, and is valid
// for [Limits.InputTimeout], or for 24 hours in a task, in all servers with the same
// [Shared.StateKeys]. The server does not know an id that is not generated. Such an id must come
// from a [Step], so that it is the same in all runs.
func (c *Call) ElicitURL(ctx context.Context, message, page, id string) (mcp.ElicitAction, error) {
	if c.traits().InputInResults {
		return c.elicitURLInResult(ctx, message, page, id, false)
	}
	if err := rerun.InStep(ctx, mcp.MethodElicitationCreate); err != nil {
		return "", err // before a page is registered
	}
	replays, known := c.replays(), id
	if run, _ := c.Task(); replays && id == "" {
		place, occurrence := c.recording().Occurrence(ctx, message+"\x00"+page)
		known = taskElicitationID(run.ID(), message, page, "", 1)
		id = taskElicitationID(run.ID(), message, page, place, occurrence)
	}
	params, err := c.urlParams(message, page, id)
	if err != nil {
		return "", err
	}
	if err := c.checkElicitation("url"); err != nil {
		return "", err
	}
	if err := c.registerElicitation(ctx, *params.ElicitationID); err != nil {
		return "", err
	}
	var result *mcp.ElicitResult
	if replays {
		result, err = c.elicitTaskURL(ctx, params, message, page, known)
	} else {
		result, err = c.elicit(ctx, params)
	}
	if _, again := errors.AsType[*InputRequiredError](err); again {
		return "", err // the elicitation stays open
	}
	if err != nil || result.Action != mcp.ElicitActionAccept {
		if c.p.s.detached.removeTaskElicitation(*params.ElicitationID) == nil {
			c.p.endElicitation(ctx, *params.ElicitationID)
		}
	}
	return actionOf(result), err
}

// elicitTaskURL sends a URL elicitation of a durable task in a session. Whatever the id in params,
// the request is known by the params with the id known, as in earlier versions of this package.
func (c *Call) elicitTaskURL(ctx context.Context, params *mcp.ElicitRequestURLParams, message, page, known string) (*mcp.ElicitResult, error) {
	identity, err := c.urlParams(message, page, known)
	if err != nil {
		return nil, err
	}
	return c.elicitInResult(ctx, identity, false, func() (mcp.ElicitRequestParams, error) { return params, nil })
}

// elicitURLInResult is ElicitURL for a modern call. A generated id differs from run to run,
// so that the request is known by the page with "{id}". For transient, see [rerun.Request].
func (c *Call) elicitURLInResult(ctx context.Context, message, page, id string, transient bool) (mcp.ElicitAction, error) {
	known := &mcp.ElicitRequestURLParams{Message: message, URL: page}
	result, err := c.elicitInResult(ctx, known, transient, func() (mcp.ElicitRequestParams, error) { return c.modernURLParams(message, page, id) })
	return actionOf(result), err
}

// modernURLParams is urlParams for a modern call, whose revision has no elicitationId. It fails if
// the client does not support URL elicitation.
func (c *Call) modernURLParams(message, page, id string) (*mcp.ElicitRequestURLParams, error) {
	if id == "" {
		ttl := c.p.s.cfg.stateTTL()
		if _, isTask := c.Task(); isTask {
			ttl = max(ttl, maxStateTTL)
		}
		id = c.p.s.sealElicitation(c.Principal(), ttl)
	}
	params, err := c.urlParams(message, page, id)
	if err != nil {
		return nil, err
	}
	return mcp.Project(c.Revision(), params), c.checkElicitation("url")
}

// taskElicitationID returns an id for the elicitation of a durable task that is the given
// occurrence, from 1, of those with the same message and page in a branch. It is the same in all
// runs of the handler. To guess it, one must know the id of the task.
func taskElicitationID(task, message, page, branch string, occurrence int) string {
	text := task + "\x00" + message + "\x00" + page
	if branch != "" || occurrence > 1 { // otherwise the id is that of earlier versions of this package
		text += "\x00" + branch + "\x00" + strconv.Itoa(occurrence)
	}
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// RequireURL returns an error with the code [CodeURLElicitationRequired]; return it from the
// handler. Ctx is that of the handler or, in a branch, that of the branch. The client asks the user to visit the page and then sends the request again. If the
// elicitation is not possible, RequireURL returns another error, as [Call.ElicitURL] does.
//
// In revisions without sessions, which do not have the error code, it returns an
// [*InputRequiredError] instead: the client asks the user, as for ElicitURL, and the handler is
// called again. If the user has declined, RequireURL returns an error that says so. In a task of
// such a revision, it asks the user and waits, and then returns an error that tells the model to
// call the tool again.
func (c *Call) RequireURL(ctx context.Context, message, page, id string) error {
	if c.traits().InputInResults {
		return c.requireModernURL(ctx, message, page, id)
	}
	params, err := c.urlParams(message, page, id)
	if err != nil {
		return err
	}
	if err := c.checkElicitation("url"); err != nil {
		return err
	}
	if err := c.registerElicitation(ctx, *params.ElicitationID); err != nil {
		return err
	}
	data, err := codec.Marshal(&mcp.URLElicitationRequiredErrorData{Elicitations: []mcp.ElicitRequestURLParams{*params}})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: CodeURLElicitationRequired, Message: "page must be visited first: " + message, Data: data}
}

// requireModernURL is RequireURL for a modern call. If the user has agreed to visit the page, but
// the handler of a plain call still requires it, the user is asked again.
func (c *Call) requireModernURL(ctx context.Context, message, page, id string) error {
	for {
		var action mcp.ElicitAction
		var err error
		if c.inRounds() {
			action, err = c.elicitURLInResult(ctx, message, page, id, true)
		} else {
			action, err = c.ElicitURL(ctx, message, page, id)
		}
		if err != nil {
			return err
		}
		if action != mcp.ElicitActionAccept {
			return fmt.Errorf("server: the user has not agreed to visit the page: %s", action)
		}
		if !c.inRounds() {
			return fmt.Errorf("server: page must be visited first: %s: call the tool again afterwards", message)
		}
	}
}

// urlParams checks the URL of a page, and returns the params of its elicitation.
func (c *Call) urlParams(message, page, id string) (*mcp.ElicitRequestURLParams, error) {
	if id == "" {
		id = rand.Text()
	}
	page = strings.ReplaceAll(page, "{id}", url.QueryEscape(id))
	if err := modern.CheckPage(page); err != nil {
		return nil, fmt.Errorf("server: elicit: invalid page: %w", err)
	}
	return &mcp.ElicitRequestURLParams{Message: message, URL: page, ElicitationID: &id}, nil
}

// maxElicitations limits the open URL elicitations of a session, and of the running tasks of a
// principal.
const maxElicitations = 1000

// registerElicitation records an open elicitation. While a task runs, its elicitations belong to
// the detached peer: the task may outlive its session, or have none.
func (c *Call) registerElicitation(ctx context.Context, id string) error {
	e := &elicitation{principal: c.Principal()}
	run, isTask := c.Task()
	if !isTask {
		if err := c.p.claimElicitation(id, e); err != nil {
			return err
		}
		if err := c.p.persist(ctx); err != nil {
			c.p.removeElicitation(id)
			return err
		}
		return nil
	}
	e.task = run
	if err := c.p.s.detached.claimElicitation(id, e); err != nil {
		return err
	}
	context.AfterFunc(c.ctx, func() {
		if context.Cause(c.ctx) == task.ErrParked {
			return // the next run claims it again
		}
		if c.p.moveElicitation(id, e) {
			c.p.tryPersist(context.Background())
		}
	})
	return nil
}

// moveElicitation is called when a task has ended. It moves an open elicitation of the task to p,
// the peer of the task's session. If the session has ended or has too many elicitations, it removes
// the elicitation and returns false.
func (p *peer) moveElicitation(id string, e *elicitation) bool {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	from := p.s.detached
	from.mu.Lock()
	open := from.elicitations[id] == e
	from.mu.Unlock()
	if !open {
		return false
	}
	defer from.removeElicitation(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p == from || p.ended || len(p.elicitations) >= maxElicitations {
		return false
	}
	p.addElicitation(id, &elicitation{principal: e.principal})
	return true
}

// removeTaskElicitation removes the elicitation of a running task. It returns nil if there is none.
func (p *peer) removeTaskElicitation(id string) *elicitation {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	return p.removeElicitation(id)
}

// claimElicitation records an elicitation. It fails if the id is in use in the server. It also
// fails if the session already has maxElicitations or, for the elicitation of a task, if the
// running tasks of the principal do.
func (p *peer) claimElicitation(id string, e *elicitation) error {
	p.s.claiming.Lock()
	defer p.s.claiming.Unlock()
	if _, taken := p.s.ElicitationPrincipal(id); taken && !p.s.detached.ownedBy(id, e.task) {
		return fmt.Errorf("server: elicit: id %q is in use", id)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.elicitations)
	if e.task != nil {
		n = 0
		for other, o := range p.elicitations {
			if o.task != nil && !o.task.Internals(boundary.Caller{}).Live() { // the task ended while it was parked
				delete(p.elicitations, other)
			} else if o.principal == e.principal {
				n++
			}
		}
	}
	if n >= maxElicitations {
		return fmt.Errorf("server: elicit: limit of %d open elicitations is reached", maxElicitations)
	}
	p.addElicitation(id, e)
	return nil
}

// ownedBy reports whether an elicitation belongs to a task, which an earlier run of the handler has
// claimed it for.
func (p *peer) ownedBy(id string, run *task.Run) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.elicitations[id]
	return e != nil && e.task != nil && e.task == run
}

// addElicitation records an elicitation. The caller must hold mu.
func (p *peer) addElicitation(id string, e *elicitation) {
	if p.elicitations == nil {
		p.elicitations = map[string]*elicitation{}
	}
	p.elicitations[id] = e
	p.stateChanges++
}

// endElicitation removes an elicitation and persists the state. It reports whether there was one.
func (p *peer) endElicitation(ctx context.Context, id string) bool {
	removed := p.removeElicitation(id) != nil
	if removed {
		p.tryPersist(ctx)
	}
	return removed
}

// removeElicitation removes an elicitation and returns it, or nil if there was none.
func (p *peer) removeElicitation(id string) *elicitation {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.elicitations[id]
	if e != nil {
		delete(p.elicitations, id)
		p.stateChanges++
	}
	return e
}

// ElicitationPrincipal returns the principal of an elicitation: the page must check that its
// visitor is the same user. It returns false if the elicitation is unknown, completed or declined,
// if its session has ended, or if its session is not restored yet after a restart of the server.
// While a task runs, its elicitations need no session. Those of a task that is parked during a
// restart are unknown until its handler runs again. A generated id of a revision without sessions
// is known until it expires, see [Call.ElicitURL].
func (s *Server) ElicitationPrincipal(id string) (principal string, ok bool) {
	for _, p := range append(s.allPeers(), s.detached) {
		p.mu.Lock()
		e := p.elicitations[id]
		p.mu.Unlock()
		if e != nil && (e.task == nil || e.task.Internals(boundary.Caller{}).Live()) {
			return e.principal, true
		}
	}
	return s.openElicitation(id)
}

// elicitationContext is the context in which ids of elicitations are sealed.
const elicitationContext = "elicitation"

// sealElicitation returns an id for an elicitation of a modern call, which has no place in memory.
func (s *Server) sealElicitation(principal string, ttl time.Duration) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(ttl).Unix()))
	return s.keys.get(context.Background()).Seal([]byte(elicitationContext), append(text, principal...))
}

// openElicitation returns the principal of an id that sealElicitation has made.
func (s *Server) openElicitation(id string) (principal string, ok bool) {
	text, err := s.keys.get(context.Background()).Open([]byte(elicitationContext), id)
	if err != nil || len(text) < 8 || s.now().Unix() >= int64(binary.BigEndian.Uint64(text)) {
		return "", false
	}
	return string(text[8:]), true
}

// ElicitationComplete ends an elicitation, and notifies the client that was asked to open the page
// (MCP elicitation, "Completion Notifications"). If the elicitation belongs to a running task, the
// notification is sent like the other messages of the task. ElicitationComplete does nothing if the
// elicitation is unknown or has ended, and in revisions without sessions, which do not have the
// notification.
func (s *Server) ElicitationComplete(ctx context.Context, id string) error {
	if e := s.detached.removeTaskElicitation(id); e != nil {
		return mcp.NotifyClient{Notifier: e.task}.ElicitationComplete(ctx, &mcp.ElicitationCompleteNotificationParams{ElicitationID: id})
	}
	for _, p := range s.allPeers() {
		sess := p.session.Load()
		if sess == nil || !p.endElicitation(ctx, id) {
			continue
		}
		return mcp.NotifyClient{Notifier: sess}.ElicitationComplete(ctx, &mcp.ElicitationCompleteNotificationParams{ElicitationID: id})
	}
	return nil
}
