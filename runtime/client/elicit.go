package client

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"unicode"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// FormRequest is a form that a server asks the user to fill in (MCP elicitation, "Form Mode
// Elicitation Requests"). [Accept], [Decline] and [Cancel] return the possible responses.
type FormRequest struct {
	Server mcp.Implementation // the server that sent the request
	Fields []form.Field       // of RequestedSchema, in the order to show them in
	*mcp.ElicitRequestFormParams
}

// Accept returns the response of a user who has filled in the form with the members of values,
// which is a struct or a map that encodes as a JSON object. A map may have values of
// [form.Field.Parse]:
//
//	return client.Accept(map[string]any{"nights": 3, "extras": []string{"sauna"}})
//
// Fields that are not members get their defaults, as all do if values is nil. A nil member means
// that the user cleared the field, which is then not sent. Accept fails if values does not encode
// as an object, or if a member is no text, number, boolean or list of texts. The client checks the
// values against the form before it sends them.
func Accept(values any) (*mcp.ElicitResult, error) {
	response := &mcp.ElicitResult{Action: mcp.ElicitActionAccept}
	if values == nil {
		return response, nil
	}
	text, err := codec.Marshal(value.Of(values))
	if err != nil {
		return nil, fmt.Errorf("client: values of a form: %w", err)
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, fmt.Errorf("client: values of a form: %T is not a JSON object", values)
	}
	if err := codec.Unmarshal(fmt.Appendf(nil, `{"action":"accept","content":%s}`, text), response); err != nil {
		return nil, fmt.Errorf("client: values of a form: %w", err)
	}
	for name, v := range response.Content {
		if u, unknown := v.(*mcp.Unknown); unknown && string(u.Raw) == "null" {
			response.Content[name] = nil
		} else if unknown {
			return nil, fmt.Errorf("client: values of a form: field %q is no text, number, boolean or list of texts", name)
		}
	}
	return response, nil
}

// Decline returns the response of a user who declines.
func Decline() *mcp.ElicitResult { return &mcp.ElicitResult{Action: mcp.ElicitActionDecline} }

// Cancel returns the response of a user who dismisses the request without a decision.
func Cancel() *mcp.ElicitResult { return &mcp.ElicitResult{Action: mcp.ElicitActionCancel} }

// URLRequest is a URL that a server asks the user to open, for data that must not pass through the
// client (MCP elicitation, "URL Mode Elicitation Requests"). Show the user the whole URL, and its
// host separately. Do not open or fetch the URL before the user agrees. Open it in the user's
// browser, where neither the host nor a model can see the page.
type URLRequest struct {
	Server mcp.Implementation // the server that sent the request
	Host   string             // of the URL, with the port if the URL has one

	// International reports whether Host has letters beyond ASCII, literally or in Punycode, such
	// as xn--pple-43d.com. They can imitate another host: warn the user.
	International bool

	*mcp.ElicitRequestURLParams

	// Done is closed when the server reports that the elicitation is complete. A server may never
	// report that: let the user continue by hand. It is nil if the request has no elicitation id.
	Done <-chan struct{}
}

// Elicit handles elicitation/create.
func (h requestHandler) Elicit(ctx context.Context, params mcp.ElicitRequestParams) (mcp.ElicitOutcome, error) {
	switch p := params.(type) {
	case *mcp.ElicitRequestFormParams:
		if h.c.options.Input.Fill != nil {
			return h.fill(ctx, p)
		}
	case *mcp.ElicitRequestURLParams:
		if h.c.options.Input.OpenURL != nil {
			return h.open(ctx, p)
		}
	}
	return nil, jsonrpc.InvalidParams(errors.New("elicitation mode was not declared by the client"))
}

func (h requestHandler) fill(ctx context.Context, p *mcp.ElicitRequestFormParams) (mcp.ElicitOutcome, error) {
	server, err := h.c.server(ctx)
	if err == nil {
		err = h.c.admit()
	}
	if err != nil {
		return nil, err
	}
	answer, err := h.c.options.Input.Fill(ctx, &FormRequest{server, form.Fields(&p.RequestedSchema), p})
	if err != nil {
		return nil, err
	}
	if answer == nil {
		return nil, errors.New("client: elicitation: Fill returned no result")
	}
	out := *answer
	if err := checkAction(out.Action); err != nil {
		return nil, err
	}
	if out.Action != mcp.ElicitActionAccept {
		out.Content = nil
		return &out, nil
	}
	out.Content = form.Fill(&p.RequestedSchema, out.Content)
	if err := form.Check(&p.RequestedSchema, out.Content); err != nil {
		return nil, fmt.Errorf("client: elicitation: result of Fill: %w", err)
	}
	return &out, nil
}

// checkAction returns an error unless a is an action that the protocol defines.
func checkAction(a mcp.ElicitAction) error {
	switch a {
	case mcp.ElicitActionAccept, mcp.ElicitActionDecline, mcp.ElicitActionCancel:
		return nil
	}
	return fmt.Errorf("client: elicitation: unknown action %q", a)
}

// checkURL returns an error if a URL from a server must not be opened. It must be https, or http on
// this machine, name a host, and hold no user name or password, which can pass for the host (MCP
// elicitation, "Safe URL Handling").
func checkURL(text string) error {
	if err := modern.CheckPage(text); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// international reports whether a host has letters beyond ASCII, literally or in Punycode.
func international(host string) bool {
	for label := range strings.SplitSeq(strings.ToLower(host), ".") {
		if strings.HasPrefix(label, "xn--") {
			return true
		}
	}
	return strings.ContainsFunc(host, func(c rune) bool { return c > unicode.MaxASCII })
}

func (h requestHandler) open(ctx context.Context, p *mcp.ElicitRequestURLParams) (mcp.ElicitOutcome, error) {
	if err := checkURL(p.URL); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	server, err := h.c.server(ctx)
	if err == nil {
		err = h.c.admit()
	}
	if err != nil {
		return nil, err
	}
	r := newURLRequest(server, p)
	if p.ElicitationID != nil {
		r.Done = h.c.urls.expect(h.c.partition(ctx), *p.ElicitationID)
	}
	action, err := h.c.options.Input.OpenURL(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkAction(action); err != nil {
		return nil, err
	}
	return &mcp.ElicitResult{Action: action}, nil
}

// newURLRequest returns the request for a URL that has passed checkURL, which parses it.
func newURLRequest(server mcp.Implementation, p *mcp.ElicitRequestURLParams) *URLRequest {
	r := &URLRequest{Server: server, ElicitRequestURLParams: p}
	if u, err := url.Parse(p.URL); err == nil {
		r.Host, r.International = u.Host, international(u.Hostname())
	}
	return r
}

// codeURLRequired is the error code of a request that needs URLs to be opened first.
const codeURLRequired = -32042

// URLsRequired returns the URLs that the user must open before the server accepts a request. It
// returns false if err is not that error of the server, or if one of the URLs is not safe to open;
// see [Input].OpenURL. Send the request again after the URLs have been opened (MCP elicitation,
// "URL Elicitation Required Error").
//
// The client remembers the ids of the latest 1024 URLs that the server has sent, and of at most 64
// in one error response; Done of other URLs is nil. If [Cache].Partition is set, one partition
// cannot displace the ids of another one that has fewer.
func (c *Client) URLsRequired(err error) (list []*URLRequest, ok bool) {
	params, ok := urlsRequired(err)
	if !ok {
		return nil, false
	}
	server := c.Server().ServerInfo
	for i := range params {
		r := newURLRequest(server, &params[i])
		if id := params[i].ElicitationID; id != nil {
			r.Done = c.urls.done(*id)
		}
		list = append(list, r)
	}
	return list, true
}

// urlsRequired returns the params of the URLs in an error of a server.
func urlsRequired(err error) (list []mcp.ElicitRequestURLParams, ok bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e.Code != codeURLRequired {
		return nil, false
	}
	var data mcp.URLElicitationRequiredErrorData
	if codec.Unmarshal(e.Data, &data) != nil {
		return nil, false
	}
	for _, p := range data.Elicitations {
		if checkURL(p.URL) != nil {
			return nil, false
		}
	}
	return data.Elicitations, true
}

// recordURLs is sending middleware. It records the URLs that the user must open before the server
// accepts a request.
func (c *Client) recordURLs(next session.Sender) session.Sender {
	return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
		result, err := next(ctx, call)
		if err != nil {
			list, _ := urlsRequired(err)
			for _, p := range list[:min(len(list), maxInputRequests)] {
				if p.ElicitationID != nil {
					c.urls.expect(c.partition(ctx), *p.ElicitationID)
				}
			}
		}
		return result, err
	}
}

// maxURLs limits the elicitations that urls records.
const maxURLs = 1024

// partition returns the partition of a call; see [Cache].Partition.
func (c *Client) partition(ctx context.Context) string {
	if c.options.Cache.Partition == nil {
		return ""
	}
	return c.options.Cache.Partition(ctx)
}

// urls records the elicitations with URLs that the server has sent. The zero value is empty. It
// stores hashes of the ids, because the server decides how long an id is.
type urls struct {
	mu    sync.Mutex
	state map[urlID]chan struct{} // closed when the elicitation is complete
	order map[string][]urlID      // by partition, the oldest first
}

// urlID is the SHA-256 hash of the id of an elicitation.
type urlID [sha256.Size]byte

func hashID(id string) urlID { return sha256.Sum256([]byte(id)) }

// expect records an id and returns the channel that finish closes. If there are too many, it forgets
// the oldest one of the partition that has the most.
func (u *urls) expect(partition, text string) <-chan struct{} {
	id := hashID(text)
	u.mu.Lock()
	defer u.mu.Unlock()
	if done, ok := u.state[id]; ok {
		return done
	}
	if u.state == nil {
		u.state, u.order = map[urlID]chan struct{}{}, map[string][]urlID{}
	}
	u.state[id] = make(chan struct{})
	u.order[partition] = append(u.order[partition], id)
	if len(u.state) > maxURLs {
		most := partition
		for other, ids := range u.order {
			if other != partition && len(ids) >= len(u.order[most]) {
				most = other
			}
		}
		delete(u.state, u.order[most][0])
		if u.order[most] = u.order[most][1:]; len(u.order[most]) == 0 {
			delete(u.order, most)
		}
	}
	return u.state[id]
}

// finish closes the channel of an id. It returns false if the id is unknown or already finished.
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

// done returns the channel of an id, or nil if the id is unknown.
func (u *urls) done(id string) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.state[hashID(id)]
}
