package proxy

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// MetaUpstream is the member of the _meta of an input request that has the Name of the upstream
// that has made the request. Behind several proxies, it has their names for each other, the nearest
// one first, separated by slashes. An upstream cannot pass itself off as another one, because the
// proxy always puts the Name before what it finds there.
const MetaUpstream = "io.github.mcpwire/upstream"

// named adds the name of the upstream to the params of an input request: to _meta, and to the
// message that the user reads.
func (l *link) named(method string, params json.RawMessage) json.RawMessage {
	switch method {
	case mcp.MethodElicitationCreate:
		params = l.withName(params)
	case mcp.MethodSamplingCreateMessage, mcp.MethodRootsList:
	default:
		return params
	}
	params = withoutAlike(params, "_meta")
	meta, _ := codec.Member(params, "_meta")
	meta = withoutAlike(meta, MetaUpstream)
	name := l.up.Name
	if inner, ok := textOf(meta, MetaUpstream); ok {
		name += "/" + inner
	}
	return jsonedit.With(params, "_meta", jsonedit.With(meta, MetaUpstream, quote(name)))
}

// withName adds the name of the upstream to the message of a form or of a page to visit, and to the
// id of the page.
func (l *link) withName(params json.RawMessage) json.RawMessage {
	params = editText(params, func(message string) string { return "[" + l.up.Name + "] " + message }, "message")
	return l.withPageID(params)
}

// withPageID adds the name of the upstream to the id of a page to visit. Upstreams may choose the
// same ids, and one of them must not report that the page of another one was visited.
func (l *link) withPageID(params json.RawMessage) json.RawMessage {
	return editText(params, func(id string) string { return l.up.Name + ":" + id }, "elicitationId")
}

// namedRequests is named for the input requests in a result.
func (l *link) namedRequests(result json.RawMessage) json.RawMessage {
	requests, ok := codec.Member(result, "inputRequests")
	if !ok {
		return result
	}
	out := json.RawMessage(`{}`)
	err := codec.ReadPart(requests, func(r *wire.Reader) {
		for r.Object(); r.More(); {
			key, request := r.Key(), withoutAlike(json.RawMessage(r.Raw()), "method", "params")
			method, _ := textOf(request, "method")
			params, _ := codec.Member(request, "params")
			if with := l.named(method, params); with != nil {
				request = jsonedit.With(request, "params", with)
			}
			out = jsonedit.With(out, key, request)
		}
	})
	if err != nil {
		return result
	}
	return jsonedit.With(result, "inputRequests", out)
}

// namedPages adds the name of the upstream to the pages that an error asks the user to visit.
func (l *link) namedPages(err *jsonrpc.Error) *jsonrpc.Error {
	if err.Code != server.CodeURLElicitationRequired {
		return err
	}
	named := *err
	named.Data = withoutAlike(err.Data, "elicitations")
	list := []byte{'['}
	for i, page := range elements(named.Data, "elicitations") {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, l.withName(page)...)
	}
	if len(list) > 1 {
		named.Data = jsonedit.With(named.Data, "elicitations", append(list, ']'))
	}
	return &named
}

// namedLog adds the name of the upstream to the logger of a log message.
func (l *link) namedLog(params json.RawMessage) json.RawMessage {
	if _, ok := textOf(params, "logger"); ok {
		return editText(params, func(logger string) string { return l.up.Name + "/" + logger }, "logger")
	}
	return jsonedit.With(params, "logger", quote(l.up.Name))
}
