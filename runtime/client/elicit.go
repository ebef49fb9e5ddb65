package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"unicode"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// FormRequest is a form that a server asks the user to fill in (MCP elicitation, "Form Mode
// Elicitation Requests"). It is answered with [Accept], [Decline] or [Cancel].
type FormRequest struct {
	Server mcp.Implementation // who asks
	*mcp.ElicitRequestFormParams
}

// Fields returns the fields of the form, in the order to show them in.
func (f *FormRequest) Fields() []form.Field {
	if f.ElicitRequestFormParams == nil {
		return nil
	}
	return form.Fields(&f.RequestedSchema)
}

// Accept is the answer of a user who has filled in the form. Fields that are not in content get
// their defaults, and fields with a nil value, which the user has cleared, are not sent. Values
// come from [form.Of] or from Parse of the field. The client checks the content before it is sent.
func Accept(content map[string]form.Value) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: mcp.ElicitResultActionAccept, Content: content}
}

// Decline is the answer of a user who says no.
func Decline() *mcp.ElicitResult { return &mcp.ElicitResult{Action: mcp.ElicitResultActionDecline} }

// Cancel is the answer of a user who has gone away without one.
func Cancel() *mcp.ElicitResult { return &mcp.ElicitResult{Action: mcp.ElicitResultActionCancel} }

// URLRequest is a URL that a server asks the user to open, for what must not pass through the client
// (MCP elicitation, "URL Mode Elicitation Requests"). It has passed [CheckURL]. Show the user all of the URL, and
// its host apart, and neither open nor fetch it before the user agrees. Open it in a browser of the user, not in
// a view into which the host or a model can look.
type URLRequest struct {
	Server mcp.Implementation // who asks
	Host   string             // of the URL, with the port if it names one

	// International reports whether Host has letters beyond ASCII, as they are or in Punycode, such
	// as xn--pple-43d.com. They can look like those of another host: warn the user.
	International bool

	*mcp.ElicitRequestURLParams

	// Done is closed when the server says that it has what it wanted. It may never say so: let the
	// user go on by hand. Nil if the server has given no id to know it by.
	Done <-chan struct{}
}

// Elicit answers elicitation/create.
func (q questions) Elicit(ctx context.Context, params mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	switch p := params.(type) {
	case *mcp.ElicitRequestFormParams:
		if q.c.options.Fill != nil {
			return q.fill(ctx, p)
		}
	case *mcp.ElicitRequestURLParams:
		if q.c.options.OpenURL != nil {
			return q.open(ctx, p)
		}
	}
	return nil, jsonrpc.InvalidParams(errors.New("the client has not declared this mode of elicitation"))
}

func (q questions) fill(ctx context.Context, p *mcp.ElicitRequestFormParams) (mcp.ElicitOutcome, error) {
	server, err := q.c.server(ctx)
	if err == nil {
		err = q.c.admit()
	}
	if err != nil {
		return nil, err
	}
	answer, err := q.c.options.Fill(ctx, &FormRequest{server, p})
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, errors.New("client: a form was filled in without an answer")
	}
	out := *answer
	if err := checkAction(out.Action); err != nil {
		return nil, err
	}
	if out.Action != mcp.ElicitResultActionAccept {
		out.Content = nil
		return &out, nil
	}
	out.Content = form.Fill(&p.RequestedSchema, out.Content)
	if err := form.Check(&p.RequestedSchema, out.Content); err != nil {
		return nil, fmt.Errorf("client: the form was filled in wrongly: %w", err)
	}
	return &out, nil
}

// checkAction returns an error unless a is an action that the protocol defines.
func checkAction(a mcp.ElicitResultAction) error {
	switch a {
	case mcp.ElicitResultActionAccept, mcp.ElicitResultActionDecline, mcp.ElicitResultActionCancel:
		return nil
	}
	return fmt.Errorf("client: elicitation: unknown action %q", a)
}

// CheckURL returns an error if a URL from a server must not be opened. It must be https, or http on
// this machine, name a host, and hold no user name or password, which can pass for the host (MCP
// elicitation, "Safe URL Handling").
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("client: malformed URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("client: URL scheme %q is not supported", u.Scheme)
	case u.Hostname() == "":
		return errors.New("client: URL has no host")
	case u.User != nil:
		return errors.New("client: URL has user information")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return fmt.Errorf("client: URL of host %q is not https", u.Hostname())
	}
	return nil
}

// loopback reports whether a host is this machine.
func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// international reports whether a host has letters beyond ASCII, in Punycode or as they are.
func international(host string) bool {
	for label := range strings.SplitSeq(strings.ToLower(host), ".") {
		if strings.HasPrefix(label, "xn--") {
			return true
		}
	}
	return strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII })
}

func (q questions) open(ctx context.Context, p *mcp.ElicitRequestURLParams) (mcp.ElicitOutcome, error) {
	if err := CheckURL(p.URL); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	server, err := q.c.server(ctx)
	if err == nil {
		err = q.c.admit()
	}
	if err != nil {
		return nil, err
	}
	r := &URLRequest{Server: server, Host: u.Host, International: international(u.Hostname()), ElicitRequestURLParams: p}
	if p.ElicitationID != nil {
		r.Done = q.c.urls.expect(*p.ElicitationID)
	}
	action, err := q.c.options.OpenURL(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkAction(action); err != nil {
		return nil, err
	}
	return &mcp.ElicitResult{Action: action}, nil
}

// codeURLRequired is the error code of a request that needs URLs to be opened first.
const codeURLRequired = -32042

// URLsRequired returns what a server wants to be opened before it does what it was asked for, if that
// is what an error says; then the request may be sent again (MCP elicitation, "URL Elicitation Required
// Error").
func URLsRequired(err error) (list []mcp.ElicitRequestURLParams, ok bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != codeURLRequired {
		return nil, false
	}
	var data mcp.URLElicitationRequiredErrorErrorData
	if codec.Unmarshal(e.Data, &data) != nil {
		return nil, false
	}
	for _, p := range data.Elicitations {
		if CheckURL(p.URL) != nil {
			return nil, false
		}
	}
	return data.Elicitations, true
}

// noteURLs is the middleware that sees which URLs the server wants to be opened.
func (c *Client) noteURLs(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		result, err := next(ctx, call)
		if err != nil {
			list, _ := URLsRequired(err)
			for _, p := range list {
				if p.ElicitationID != nil {
					c.urls.expect(*p.ElicitationID)
				}
			}
		}
		return result, err
	}
}

// URLDone returns what is closed when the server says that it has what it wanted from a URL, as
// [URLRequest].Done; ok is false for an id that the server has not asked with, or so long ago that it
// was forgotten.
func (c *Client) URLDone(id string) (done <-chan struct{}, ok bool) { return c.urls.done(id) }

// maxURLs is how many URLs are remembered.
const maxURLs = 1024

// urls remembers which URLs the server has asked to be opened. The zero value has none. It keeps hashes of the ids, as
// the server decides how long an id is.
type urls struct {
	mu    sync.Mutex
	state map[urlID]chan struct{} // closed when it is done
	order []urlID                 // the oldest first
}

// urlID is the SHA-256 hash of the id of an elicitation.
type urlID [sha256.Size]byte

func hashID(id string) urlID { return sha256.Sum256([]byte(id)) }

// expect remembers an id.
func (u *urls) expect(text string) <-chan struct{} {
	id := hashID(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	if done, ok := u.state[id]; ok {
		return done
	}
	if u.state == nil {
		u.state = map[urlID]chan struct{}{}
	}
	if len(u.order) == maxURLs {
		delete(u.state, u.order[0])
		u.order = u.order[1:]
	}
	u.state[id] = make(chan struct{})
	u.order = append(u.order, id)
	return u.state[id]
}

// finish notes that an id is done, and reports whether that is news.
func (u *urls) finish(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	done, ok := u.state[hashID(id)]
	if !ok {
		return false
	}
	select {
	case <-done:
		return false
	default:
		close(done)
		return true
	}
}

func (u *urls) done(id string) (<-chan struct{}, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	done, ok := u.state[hashID(id)]
	return done, ok
}
