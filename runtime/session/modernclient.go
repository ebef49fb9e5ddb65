package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
)

// Traits returns the traits of the negotiated revision, or the zero Traits before the handshake.
func (s *Session) Traits() mcp.Traits { return s.Revision().Traits() }

// modernResult returns the outcome of a modern request. It sends the request again, with another
// revision, if the server has rejected the revision and supports a common one.
func (s *Session) modernResult(ctx context.Context, call *Call, e exchange, result json.RawMessage, err error) (json.RawMessage, error) {
	if err != nil && jsonrpc.CodeOf(err) == modern.CodeUnsupportedVersion {
		if s.changeRevision(offeredBy(err)) {
			e.again = true
			result, err = s.exchange(ctx, call, e)
		}
	}
	if err != nil {
		err = describe(call.Method, err)
		if v, ok := errors.AsType[*VersionError](err); ok {
			v.Requested, v.Supported = s.Revision(), s.cfg.Revisions
		}
		return nil, err
	}
	if call.Method == mcp.MethodServerDiscover {
		s.learn(result)
	}
	return result, s.checkResultType(call.Method, result)
}

// learn records a result of server/discover, unless it is invalid. The server may have been
// replaced by another one.
func (s *Session) learn(result json.RawMessage) {
	var d mcp.DiscoverResult
	if err := codec.Unmarshal(result, &d); err != nil {
		s.cfg.Logger.Debug("result of server/discover dropped", "error", err)
		return
	}
	server := serverOf(s.Revision(), &d)
	s.handshake.set(func(a *agreement) { a.server, a.asked = server, time.Now() })
}

// maxServerAge is how long a capability counts as undeclared before the client asks the server
// again.
const maxServerAge = 10 * time.Second

// relearn sends server/discover if err is that of a request for which the server has not declared a
// capability. It returns false if the capabilities are unchanged: err is another error, the latest
// answer is younger than maxServerAge, or server/discover fails.
func (s *Session) relearn(ctx context.Context, err error) bool {
	missing, ok := errors.AsType[*CapabilityError](err)
	a := s.handshake.current.Load()
	if !ok || missing.Own || missing.Capability == "" || !a.states() || time.Since(a.asked) < maxServerAge {
		return false
	}
	return s.Ping(ctx) == nil
}

// changeRevision changes the revision to the first of the configured modern ones that the server
// offers. It returns false if no revision is common.
func (s *Session) changeRevision(offered []mcp.Revision) bool {
	current, _ := modern.Split(s.cfg.Revisions)
	common := firstCommon(current, offered)
	return common != "" && s.setServer(common, s.Server()) == nil
}

// checkResultType returns an error if the client does not know the type of a result.
func (s *Session) checkResultType(method string, result json.RawMessage) error {
	raw, ok := codec.Member(result, "resultType")
	if !ok {
		return nil // of an earlier revision: complete
	}
	var kind string
	if err := codec.ReadPart(raw, func(r *wire.Reader) { kind = r.Text() }); err != nil {
		return fmt.Errorf("session: result of %s: resultType: %w", method, err)
	}
	switch {
	case kind == modern.ResultComplete:
		return nil
	case kind == modern.ResultInputRequired && modern.TakesInput(method):
		return nil
	case kind == tasks.ResultTask && s.extends(tasks.ExtensionID) && mayBeTask(method):
		return nil
	}
	return fmt.Errorf("session: result of %s has the unknown resultType %q", method, kind)
}

// mayBeTask reports whether a server may answer a request with a task of the Tasks extension (MCP
// tasks extension, "Supported Methods").
func mayBeTask(method string) bool { return method == mcp.MethodToolsCall }

// extends reports whether the client has declared an extension.
func (s *Session) extends(extension string) bool {
	_, ok := codec.Member(s.handshake.current.Load().client.Capabilities.Extensions, extension)
	return ok
}

// answerError is an error answer with a code of modern revisions. It wraps the error of this
// package that describes it.
type answerError struct {
	described error
	answer    *jsonrpc.Error
}

func (e *answerError) Error() string { return e.described.Error() }

func (e *answerError) Unwrap() []error { return []error{e.described, e.answer} }

// describe wraps an error answer to a modern request in the error of this package for its code: a
// [*VersionError], a [*CapabilityError] or [modern.ErrHeaders]. It returns other errors unchanged.
func describe(method string, err error) error {
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return err
	}
	switch answer.Code {
	case modern.CodeHeaderMismatch:
		return &answerError{fmt.Errorf("%w: %s: %s", modern.ErrHeaders, method, answer.Message), answer}
	case modern.CodeMissingCapability:
		return &answerError{&CapabilityError{Method: method, Capability: requiredCapabilities(answer), Own: true}, answer}
	case modern.CodeUnsupportedVersion:
		v := new(VersionError)
		if offered := offeredBy(err); len(offered) > 0 {
			v.Offered = offered[0]
		}
		return &answerError{v, answer}
	}
	return err
}

// maxNamed is how many missing capabilities an error names.
const maxNamed = 8

// requiredCapabilities returns the capabilities that the data of an error names, such as
// "elicitation.form", separated by commas.
func requiredCapabilities(e *jsonrpc.Error) string {
	raw, ok := codec.Member(e.Data, "requiredCapabilities")
	if !ok {
		return "of the client"
	}
	var names []string
	var walk func(r *wire.Reader, prefix string)
	walk = func(r *wire.Reader, prefix string) {
		if r.Kind() != wire.KindObject {
			r.Skip()
			names = append(names, prefix)
			return
		}
		leaf := true
		for r.Object(); len(names) < maxNamed && r.More(); {
			leaf = false
			walk(r, strings.TrimPrefix(prefix+"."+r.Key(), "."))
		}
		if leaf && prefix != "" {
			names = append(names, prefix)
		}
	}
	if codec.ReadPart(raw, func(r *wire.Reader) { walk(r, "") }) != nil || len(names) == 0 {
		return "of the client"
	}
	return strings.Join(names, ", ")
}

// Handle passes a request or a notification to the handler of the session, as if the peer had sent
// it: through the receiving middleware, and notifications in turn with those of the peer. It is for
// input requests that arrive in the result of a request. The ID of a notification is the zero ID.
// Handle returns the result and the error of the handler of a request, and nil at once for a
// notification, or [ErrClosed] if the session has ended.
func (s sessionInternals) Handle(ctx context.Context, req *Request) (codec.Encoder, error) {
	req.Session = s.Session
	if s.life.over() {
		return nil, s.life.err()
	}
	if req.IsNotification() {
		if reason := s.enqueue(notice{req: req}, len(req.Params)); reason != "" {
			s.warn("notification dropped", "reason", reason, "method", boundary.Text(req.Method, 100))
		}
		return nil, nil
	}
	if !s.life.enter() {
		return nil, s.life.err()
	}
	defer s.life.exit()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life.ctx, func() { cancel(context.Cause(s.life.ctx)) })()
	return s.handle(requestInternals{req}.NewContext(ctx), req)
}
