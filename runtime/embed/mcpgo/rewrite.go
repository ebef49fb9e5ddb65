package mcpgo

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// tickets are texts that stand for JSON which the SDK cannot write: responses to requests about
// tasks, and params of input requests. The SDK writes the text of a ticket in a message, and the
// wrapper of the transport writes another message instead; see rewrite. A text cannot be guessed, so
// neither a handler nor a client can make one, and it says nothing about the JSON.
type tickets struct{ open sync.Map } // text to json.RawMessage

// ticketPrefix begins the texts of all tickets, also those of other processes.
const ticketPrefix = "mcpwire-ticket-"

// issue returns the text of a ticket. Empty JSON stands for a response that is not sent.
func (t *tickets) issue(text json.RawMessage) string {
	ticket := ticketPrefix + rand.Text()
	t.open.Store(ticket, oneLine(text))
	return ticket
}

// lookup returns the JSON of a ticket. It returns false if the ticket is closed, or is one of
// another process.
func (t *tickets) lookup(ticket string) (json.RawMessage, bool) {
	text, ok := t.open.Load(ticket)
	if !ok {
		return nil, false
	}
	return text.(json.RawMessage), true
}

// close makes a ticket invalid.
func (t *tickets) close(ticket string) { t.open.Delete(ticket) }

// take closes a ticket and returns its JSON. It returns false if text is not a ticket.
func (t *tickets) take(text string) (json.RawMessage, bool) {
	if !isTicket(text) {
		return nil, false
	}
	found, ok := t.lookup(text)
	t.close(text)
	return found, ok
}

func isTicket(text string) bool { return strings.HasPrefix(text, ticketPrefix) }

// oneLine returns JSON without line breaks. They would end a line or an event.
func oneLine(text json.RawMessage) json.RawMessage {
	var compact bytes.Buffer
	if bytes.ContainsAny(text, "\r\n") && json.Compact(&compact, text) == nil {
		return compact.Bytes()
	}
	return text
}

// errLost is sent in place of a response that a client can no longer receive: it was recorded by an
// EventStore that is not one of [Tasks.EventStore].
var errLost = jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the response is no longer available: repeat the request"}

// rewritten is a message that replaces one of the SDK.
type rewritten struct {
	message string // "" for none
	ticket  string // that the SDK has written
}

// rewrite returns what replaces text, which the SDK has written: a message or an event. It replaces
// an error of intercept by the response to the request, and the params of a request that has a
// ticket by the JSON of the ticket. For other texts, ok is false.
func (t *Tasks) rewrite(text []byte) (r rewritten, ok bool) {
	if !bytes.Contains(text, []byte(ticketPrefix)) {
		return r, false
	}
	if _, data, ok := bytes.Cut(text, []byte("event: message\ndata: ")); ok {
		text = bytes.TrimSpace(data)
	}
	if e, ok := codec.Member(text, "error"); ok {
		if r.ticket, ok = ticketIn(e, "message"); !ok {
			return r, false
		}
		response, open := t.tickets.lookup(r.ticket)
		if r.message = string(response); !open {
			r.message = string(lost(text))
		}
		return r, true
	}
	params, _ := codec.Member(text, "params")
	for _, name := range []string{"message", "metadata"} { // of elicitation/create, of sampling/createMessage
		if r.ticket, ok = ticketIn(params, name); ok {
			// Without its params, a request is not sent. It has been answered, or will be repeated.
			if params, open := t.tickets.lookup(r.ticket); open {
				r.message = string(jsonedit.With(text, "params", params))
			}
			return r, true
		}
	}
	return r, false
}

// ticketIn returns the ticket that is the value of a member.
func ticketIn(object json.RawMessage, name string) (ticket string, ok bool) {
	codec.ReadPart(object, func(r *wire.Reader) { ticket, _, _ = r.PeekMember(name) })
	return ticket, isTicket(ticket)
}

// lost returns an error response in place of response.
func lost(response json.RawMessage) []byte {
	text, err := codec.Marshal(&errLost)
	if err != nil {
		return nil
	}
	return jsonedit.With(response, "error", text)
}
