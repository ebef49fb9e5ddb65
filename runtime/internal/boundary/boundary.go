// Package boundary calls user code: handlers, callbacks, hooks, middleware, stores, and the Error,
// String, EncodeJSON and MarshalJSON methods of users' types. In goroutines of the library, all
// user code runs through this package, because a panic would otherwise end the process.
//
// A function that calls such code defers [Catch] with its named error result:
//
//	func (s *Session) handle(ctx context.Context, req *Request) (result codec.Encoder, err error) {
//		defer boundary.Catch(&err)
//		return s.handler(ctx, req)
//	}
//
// Catch does not allocate. [Run] does the same for a function literal. Encode with [Marshal], and
// convert the error of a handler with [WireError] before it is sent to the peer: both recover
// panics of the methods that they call.
//
// A panic becomes a [*Panic]. The request, task or call that the code ran for fails with it, and
// the caller logs it with [Report]. Catch does not stop [runtime.Goexit], which ends the goroutine.
// Work that must be finished even then belongs in a deferred function.
package boundary

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Panic is a recovered panic as an error. Its text stays on this side: [WireError] does not send
// it.
type Panic struct {
	Value any    // the argument of panic
	Stack []byte // of the goroutine that panicked
}

// Error returns the text of the panic value. If a method of the value panics, fmt recovers.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// ErrGoexit is the outcome of code that called [runtime.Goexit].
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Catch turns a panic into a [*Panic] in *err, and makes an error that was returned [Sound]. It must
// be deferred directly. A [*Panic] that panics again, in another goroutine, stays the same.
func Catch(err *error) {
	switch v := recover().(type) {
	case nil:
		*err = Sound(*err)
	case *Panic:
		*err = v
	default:
		*err = &Panic{v, debug.Stack()}
	}
}

// Caller is the parameter of methods that only packages of this module can call, because no other
// one can name it. Such methods return a value with more methods than users need.
type Caller struct{ _ [0]byte }

// Run calls f. It returns the error of f, or a [*Panic] if f panics.
func Run(f func() error) (err error) {
	defer Catch(&err)
	return f()
}

// Sound returns err or, if a method of an error in its chain panics when it is examined, an internal
// error in its place: the nil pointer of a type that wraps another error, for example, often does.
// Functions such as [errors.Is] may then be called outside of this package, too.
func Sound(err error) (sound error) {
	if err == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			sound = internal(fmt.Sprintf("methods of the error panic (%T)", err))
		}
	}()
	errors.Is(err, ErrGoexit)
	errors.AsType[*Panic](err)
	return err
}

// Marshal returns v as JSON text. It returns a panic of v's methods as an error.
func Marshal(v codec.Encoder) (text []byte, err error) {
	defer Catch(&err)
	return codec.Marshal(v)
}

// MarshalFunc is [Marshal] for a function that writes a JSON value. It returns a panic of write as
// an error.
func MarshalFunc(write func(w *wire.Writer)) (text []byte, err error) {
	defer Catch(&err)
	return codec.MarshalFunc(write)
}

// Report logs event with the panic's value and stack if err is a [*Panic] or [ErrGoexit], and
// returns true for these.
func Report(log *slog.Logger, event string, err error, attrs ...any) bool {
	p, ok := err.(*Panic)
	switch {
	case ok:
		log.Error(event, append(attrs, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))...)
	case err == ErrGoexit:
		log.Error(event, append(attrs, "error", err)...)
	}
	return ok || err == ErrGoexit
}

// maxErrorText is how many bytes of an error's text go to the peer, unless it is a
// [*jsonrpc.Error].
const maxErrorText = 16 << 10

// WireError returns the error that is sent to the peer for err, which must not be nil: the
// [*jsonrpc.Error] in its chain, or one with the code and the text of err. A recovered panic, a
// panic in a method of err, and a nil *jsonrpc.Error become internal errors. The message is valid
// UTF-8.
func WireError(err error) (e *jsonrpc.Error) {
	defer func() {
		if recover() != nil { // in a method of err
			e = internal("the error has no text")
		}
	}()
	if _, ok := err.(*Panic); ok || err == ErrGoexit {
		return internal("the handler panicked")
	}
	if found, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if found == nil {
			return internal("the handler failed with a nil error")
		}
		if valid := strings.ToValidUTF8(found.Message, "\uFFFD"); valid != found.Message {
			copied := *found
			copied.Message = valid
			return &copied
		}
		return found
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: Text(err.Error(), maxErrorText)}
}

func internal(cause string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: " + cause}
}

// ErrorText returns the text of err, which may be nil, as valid UTF-8 of bounded length.
func ErrorText(err error) (text string) {
	if err == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprintf("%T without a text: panic: %v", err, v)
		}
	}()
	return Text(err.Error(), maxErrorText)
}

// Text returns text as valid UTF-8. A text of more than max bytes is cut there, and an ellipsis is
// added. Use it for foreign text that is stored or sent.
func Text(text string, max int) string {
	cut := len(text) > max
	if cut {
		text = prefix(text, max)
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) > max { // replacements are longer
		text, cut = prefix(text, max), true
	}
	if cut {
		text += "…"
	}
	return text
}

// prefix returns at most max bytes of a longer text, which end between characters if it is valid
// UTF-8.
func prefix(text string, max int) string {
	cut := max
	for cut > 0 && cut > max-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
