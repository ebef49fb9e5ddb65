package hostile

import "fmt"

// Kind is the kind of a message, in the terms of package jsonrpc.
type Kind string

// The kinds.
const (
	Invalid       Kind = "invalid"
	Request       Kind = "request"
	Notification  Kind = "notification"
	Response      Kind = "response"
	ErrorResponse Kind = "error response"
)

// Message is a message, or an invalid one.
type Message struct {
	Name, Text string
	Refusal
	Kind Kind   // its kind, or the kind that its members indicate
	ID   string // the id as JSON text, without needless escapes; "" without a valid id
}

// Messages returns the messages.
func Messages() []Class[Message] {
	return []Class[Message]{
		{"Ids", ids()},
		{"Conflicting members", togetherMessages()},
		{"Missing members and wrong types", memberMessages()},
		{"Names in the wrong case", caseMessages()},
		{"Unknown members, unknown methods, optional members", unknownMessages()},
		{"Duplicate members", repeatedMessages()},
		{"Broken text inside a message", brokenMessages()},
		{"Text around a message", aroundMessages()},
		{"Not a message", noMessages()},
	}
}

const message = `{"jsonrpc":"2.0","id":1,"method":"m"}`

// ids returns a request, a response and an error response for each valid and invalid form of an id.
func ids() []Message {
	var list []Message
	for _, id := range []string{
		`0`, `-0`, `7`, `-7`, `1.0`, `1e3`, `1E+3`, `10e-1`, `-0.0`, `9007199254740993`, `-9223372036854775809`, `18446744073709551616`,
		`1e400`, `123456789012345678901234567890`, `""`, `"7"`, `"null"`, `"a-1"`, `"7😀"`, `"é\u0000"`,
	} {
		list = append(list,
			Message{"id " + id + " of a request", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"m"}`, id), Refusal{}, Request, id},
			Message{"id " + id + " of a response", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id), Refusal{}, Response, id},
			Message{"id " + id + " of an error response", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m"}}`, id), Refusal{}, ErrorResponse, id},
		)
	}
	return append(list, wrongIDs()...)
}

func wrongIDs() []Message {
	return []Message{
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, Refusal{ID, 22, "/id"}, Request, ""},
		{"fractional id by exponent", `{"jsonrpc":"2.0","id":1e-3,"result":{}}`, Refusal{ID, 22, "/id"}, Response, ""},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"m"}`, Refusal{ID, 22, "/id"}, Request, ""},
		{"object for an id", `{"jsonrpc":"2.0","id":{"a":[]},"method":"m"}`, Refusal{ID, 22, "/id"}, Request, ""},
		{"array for an id", `{"jsonrpc":"2.0","id":[1],"error":{"code":1,"message":"m"}}`, Refusal{ID, 22, "/id"}, ErrorResponse, ""},
		{"null id of a request", `{"jsonrpc":"2.0","method":"m","id":null}`, Refusal{ID, 35, "/id"}, Request, ""},
		{"null id of a response", `{"jsonrpc":"2.0","id":null,"result":{}}`, Refusal{ID, 22, "/id"}, Response, ""},
		{"response without id", ` {"jsonrpc":"2.0","result":{}}`, Refusal{NoID, 1, ""}, Response, ""},
		{"empty object for an id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, Refusal{ID, 22, "/id"}, Request, ""},
		{"false for an id", `{"jsonrpc":"2.0","id":false,"result":{}}`, Refusal{ID, 22, "/id"}, Response, ""},
		{"error with null for an id", `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, Refusal{}, ErrorResponse, ""},
		{"error without id", `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`, Refusal{}, ErrorResponse, ""},
	}
}

func togetherMessages() []Message {
	return []Message{
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, Refusal{Both, 44, "/error"}, ErrorResponse, `1`},
		{"error and result", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"result":{}}`, Refusal{Both, 66, "/result"}, ErrorResponse, `1`},
		{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, Refusal{Mixed, 46, "/result"}, Request, `1`},
		{"error and method", `{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"method":"m"}`, Refusal{Mixed, 25, "/error"}, Notification, ""},
		{"nothing but an id", `{"jsonrpc":"2.0","id":1}`, Refusal{Neither, 0, ""}, Invalid, `1`},
		{"nothing but params", `{"jsonrpc":"2.0","params":{}}`, Refusal{Neither, 0, ""}, Invalid, ""},
		{"the first of two faults", `{"jsonrpc":"2.0","id":[],"method":7}`, Refusal{ID, 22, "/id"}, Request, ""},
		{"result null and error", `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}`, Refusal{Result, 33, "/result"}, ErrorResponse, `1`},
		{"result and error null", `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, Refusal{Error, 44, "/error"}, ErrorResponse, `1`},
		{"method, result and error", `{"jsonrpc":"2.0","id":1,"method":"m","result":{},"error":{"code":1,"message":"m"}}`, Refusal{Both, 57, "/error"}, Request, `1`},
	}
}

func memberMessages() []Message {
	return []Message{
		{"no version", `{"id":1,"method":"m"}`, Refusal{Version, 0, ""}, Request, `1`},
		{"empty object", "\n {}", Refusal{Version, 2, ""}, Invalid, ""},
		{"wrong version", `{"jsonrpc":"1.0","id":1,"method":"m"}`, Refusal{Version, 11, "/jsonrpc"}, Request, `1`},
		{"version as a number", `{"jsonrpc":2.0,"method":"m","id":1}`, Refusal{Version, 11, "/jsonrpc"}, Request, `1`},
		{"version null", `{"jsonrpc":null}`, Refusal{Version, 11, "/jsonrpc"}, Invalid, ""},
		{"version with space", `{"jsonrpc":"2.0 "}`, Refusal{Version, 11, "/jsonrpc"}, Invalid, ""},
		{"method as a number", `{"jsonrpc":"2.0","method":1,"id":1}`, Refusal{Method, 26, "/method"}, Request, `1`},
		{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, Refusal{Method, 33, "/method"}, Request, `1`},
		{"method null in a notification", `{"jsonrpc":"2.0","method":null}`, Refusal{Method, 26, "/method"}, Notification, ""},
		{"params null", `{"jsonrpc":"2.0","params":null,"method":"m","id":1}`, Refusal{Params, 26, "/params"}, Request, `1`},
		{"params a string", `{"jsonrpc":"2.0","method":"m","params":"x"}`, Refusal{Params, 39, "/params"}, Notification, ""},
		{"params an array", `{"jsonrpc":"2.0","id":1,"params":[1,2],"method":"m"}`, Refusal{Positional, 33, "/params"}, Request, `1`},
		{"params an array in a notification", `{"jsonrpc":"2.0","method":"m","params":[]}`, Refusal{Positional, 39, "/params"}, Notification, ""},
		{"result null", `{"jsonrpc":"2.0","id":1,"result":null}`, Refusal{Result, 33, "/result"}, Response, `1`},
		{"result an array", `{"jsonrpc":"2.0","id":1,"result":[]}`, Refusal{Result, 33, "/result"}, Response, `1`},
		{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, Refusal{Error, 32, "/error"}, ErrorResponse, `1`},
		{"error a string", `{"jsonrpc":"2.0","error":"no","id":1}`, Refusal{Error, 25, "/error"}, ErrorResponse, `1`},
		{"error without code", `{"jsonrpc":"2.0","error":{"message":"m"},"id":1}`, Refusal{Error, 25, "/error"}, ErrorResponse, `1`},
		{"error without message", `{"jsonrpc":"2.0","error":{"code":1},"id":1}`, Refusal{Error, 25, "/error"}, ErrorResponse, `1`},
		{"error with a fractional code", `{"jsonrpc":"2.0","error":{"code":1.5,"message":"m"},"id":1}`, Refusal{Error, 33, "/error/code"}, ErrorResponse, `1`},
		{"error with a code that is a string", `{"jsonrpc":"2.0","error":{"code":"1","message":"m"},"id":1}`, Refusal{Error, 33, "/error/code"}, ErrorResponse, `1`},
		{"error with a null message", `{"jsonrpc":"2.0","error":{"code":1,"message":null},"id":1}`, Refusal{Error, 45, "/error/message"}, ErrorResponse, `1`},
		{"result false", `{"jsonrpc":"2.0","id":1,"result":false}`, Refusal{Result, 33, "/result"}, Response, `1`},
		{"result a string", `{"jsonrpc":"2.0","id":1,"result":""}`, Refusal{Result, 33, "/result"}, Response, `1`},
		{"error false", `{"jsonrpc":"2.0","id":1,"error":false}`, Refusal{Error, 32, "/error"}, ErrorResponse, `1`},
		{"error an empty object", `{"jsonrpc":"2.0","id":1,"error":{}}`, Refusal{Error, 32, "/error"}, ErrorResponse, `1`},
		{"error an array", `{"jsonrpc":"2.0","id":1,"error":[]}`, Refusal{Error, 32, "/error"}, ErrorResponse, `1`},
		{"error with a null code", `{"jsonrpc":"2.0","id":1,"error":{"code":null,"message":"m"}}`, Refusal{Error, 40, "/error/code"}, ErrorResponse, `1`},
		{"version 2", `{"jsonrpc":"2","id":1,"method":"m"}`, Refusal{Version, 11, "/jsonrpc"}, Request, `1`},
		{"version 2.0 escaped", `{"jsonrpc":"\u0032.0","id":1,"method":"m"}`, Refusal{}, Request, `1`},
	}
}

func caseMessages() []Message {
	return []Message{
		{"version under a name in capitals", `{"JSONRPC":"2.0"}`, Refusal{Version, 0, ""}, Invalid, ""},
		{"id of a request in capitals", `{"jsonrpc":"2.0","ID":1,"result":{}}`, Refusal{NoID, 0, ""}, Response, ""},
		{"method in capitals", `{"jsonrpc":"2.0","id":1,"Method":"m"}`, Refusal{Neither, 0, ""}, Invalid, `1`},
		{"version in capitals beside the right one", `{"jsonrpc":"2.0","JSONRPC":"1.0","id":1,"method":"m"}`, Refusal{}, Request, `1`},
		{"id in capitals beside the right one", `{"jsonrpc":"2.0","id":1,"ID":2,"Id":3,"method":"m"}`, Refusal{}, Request, `1`},
		{"id in capitals of a notification", `{"jsonrpc":"2.0","ID":2,"method":"m"}`, Refusal{}, Notification, ""},
		{"method in capitals beside the right one", `{"jsonrpc":"2.0","id":1,"method":"m","Method":"n"}`, Refusal{}, Request, `1`},
		{"method in capitals before the right one", `{"jsonrpc":"2.0","id":1,"METHOD":"n","method":"m"}`, Refusal{}, Request, `1`},
		{"params in capitals", `{"jsonrpc":"2.0","id":1,"method":"m","Params":{"a":1}}`, Refusal{}, Request, `1`},
		{"result in capitals beside the right one", `{"jsonrpc":"2.0","id":1,"result":{},"Result":{"a":1}}`, Refusal{}, Response, `1`},
		{"result in capitals", `{"jsonrpc":"2.0","id":1,"Result":{}}`, Refusal{Neither, 0, ""}, Invalid, `1`},
		{"error in capitals beside a result", `{"jsonrpc":"2.0","id":1,"result":{},"Error":{"code":1,"message":"m"}}`, Refusal{}, Response, `1`},
		{"code in capitals beside the right one", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"Code":2,"message":"m","MESSAGE":"n"}}`, Refusal{}, ErrorResponse, `1`},
		{"code in capitals", `{"jsonrpc":"2.0","id":1,"error":{"Code":1,"message":"m"}}`, Refusal{Error, 32, "/error"}, ErrorResponse, `1`},
		{"name with a letter that folds to a plain one", `{"jsonrpc":"2.0","id":1,"method":"m","paramſ":{"a":1}}`, Refusal{}, Request, `1`},
	}
}

func unknownMessages() []Message {
	return []Message{
		{"unknown member of a request", `{"jsonrpc":"2.0","id":1,"method":"m","x":{"y":[1.0,null]}}`, Refusal{}, Request, `1`},
		{"unknown member of a notification", `{"x":null,"jsonrpc":"2.0","method":"m"}`, Refusal{}, Notification, ""},
		{"unknown member of a response", `{"jsonrpc":"2.0","id":1,"result":{},"":"no name"}`, Refusal{}, Response, `1`},
		{"unknown member of an error response", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"},"x":12345678901234567890}`, Refusal{}, ErrorResponse, `1`},
		{"unknown member of an error object", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","x":{"a":1e400}}}`, Refusal{}, ErrorResponse, `1`},
		{"params of a response", `{"jsonrpc":"2.0","id":1,"result":{},"params":{"a":1}}`, Refusal{}, Response, `1`},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"future/call","params":{"a":[1.50]}}`, Refusal{}, Request, `1`},
		{"unknown method of a notification", `{"jsonrpc":"2.0","method":"notifications/future","params":{"a":null}}`, Refusal{}, Notification, ""},
		{"method that is the empty string", `{"jsonrpc":"2.0","id":1,"method":""}`, Refusal{}, Request, `1`},
		{"method in another case", `{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"a":1}}`, Refusal{}, Request, `1`},
		{"method with a NUL, escaped", `{"jsonrpc":"2.0","id":1,"method":"ping\u0000"}`, Refusal{}, Request, `1`},
		{"method with white space", `{"jsonrpc":"2.0","id":1,"method":" ping"}`, Refusal{}, Request, `1`},
		{"result of an unknown method", `{"jsonrpc":"2.0","id":1,"result":{"a":[1.50]}}`, Refusal{}, Response, `1`},
		{"error code beyond an int64", `{"jsonrpc":"2.0","id":1,"error":{"code":-92233720368547758089,"message":"m"}}`, Refusal{}, ErrorResponse, `1`},
		{"error code 1e3", `{"jsonrpc":"2.0","id":1,"error":{"code":-1e3,"message":"m"}}`, Refusal{}, ErrorResponse, `1`},
		{"error data null", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":null}}`, Refusal{}, ErrorResponse, `1`},
		{"error data an empty string", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":""}}`, Refusal{}, ErrorResponse, `1`},
		{"empty params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`, Refusal{}, Request, `1`},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"m"}`, Refusal{}, Request, `1`},
	}
}

func repeatedMessages() []Message {
	return []Message{
		{"repeated name in params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}`, Refusal{Duplicate, 53, "/params/a"}, Request, `1`},
		{"repeated member", `{"jsonrpc":"2.0","jsonrpc":"2.0"}`, Refusal{Duplicate, 17, "/jsonrpc"}, Invalid, ""},
		{"repeated id", `{"jsonrpc":"2.0","id":1,"method":"m","id":1}`, Refusal{Duplicate, 37, "/id"}, Request, ""},
		{"repeated null id", `{"jsonrpc":"2.0","id":null,"id":null}`, Refusal{Duplicate, 27, "/id"}, Invalid, ""},
		{"repeated method", `{"jsonrpc":"2.0","id":1,"method":"m","\u006dethod":"n"}`, Refusal{Duplicate, 37, "/method"}, Request, `1`},
		{"repeated params", `{"params":{},"params":{}}`, Refusal{Duplicate, 13, "/params"}, Invalid, ""},
		{"repeated result", `{"result":{},"result":{}}`, Refusal{Duplicate, 13, "/result"}, Response, ""},
		{"repeated error", `{"error":{"code":1,"message":"m"},"error":1}`, Refusal{Duplicate, 34, "/error"}, ErrorResponse, ""},
		{"repeated unknown member", `{"x":1,"x":1}`, Refusal{Duplicate, 7, "/x"}, Invalid, ""},
		{"repeated code", `{"id":1,"error":{"code":1,"code":1}}`, Refusal{Duplicate, 26, "/error/code"}, ErrorResponse, `1`},
		{"repeated name in a result", `{"jsonrpc":"2.0","id":1,"result":{"a":{"b":1,"b":1}}}`, Refusal{Duplicate, 45, "/result/a/b"}, Response, `1`},
		{"repeated name in error data", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":{"a":1,"a":1}}}`, Refusal{Duplicate, 70, "/error/data/a"}, ErrorResponse, `1`},
		{"repeated name in an unknown member", `{"jsonrpc":"2.0","id":1,"x":[{"a":1,"a":1}],"method":"m"}`, Refusal{Duplicate, 36, "/x/0/a"}, Invalid, `1`},
		{"repeated data", `{"jsonrpc":"2.0","id":1,"error":{"data":1,"code":1,"message":"m","data":1}}`, Refusal{Duplicate, 65, "/error/data"}, ErrorResponse, `1`},
		{"repeated message", `{"jsonrpc":"2.0","id":1,"error":{"message":"m","code":1,"m\u0065ssage":"m"}}`, Refusal{Duplicate, 56, "/error/message"}, ErrorResponse, `1`},
	}
}

func brokenMessages() []Message {
	return []Message{
		{"text that ends early", `{"jsonrpc":"2.0","id":1`, Refusal{EOF, 23, "/id"}, Invalid, `1`},
		{"malformed in params", "{\"id\":1,\n\"method\":\"m\",\n\"params\":{\"a\":01}}", Refusal{Number, 37, "/params/a"}, Request, `1`},
		{"malformed in a notification, as far as one sees", `{"method":"m","params":{"a":}}`, Refusal{Syntax, 28, "/params/a"}, Invalid, ""},
		{"malformed response", `{"id":1,"result":{"a":"` + "\xff" + `"}}`, Refusal{UTF8, 23, "/result/a"}, Response, `1`},
		{"malformed error", `{"id":1,"error":{"code":1,"message":"\x"}}`, Refusal{Escape, 37, "/error/message"}, ErrorResponse, `1`},
		{"malformed after an invalid error", `{"error":{"code":"1"},"id":1,}`, Refusal{Syntax, 29, ""}, ErrorResponse, `1`},
		{"raw tab in an id", "{\"jsonrpc\":\"2.0\",\"id\":\"a\tb\",\"method\":\"m\"}", Refusal{ControlChar, 24, "/id"}, Invalid, ""},
		{"raw NUL in a method", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\x00\"}", Refusal{ControlChar, 35, "/method"}, Request, `1`},
		{"raw line feed in params", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"\n\"}}", Refusal{ControlChar, 52, "/params/a"}, Request, `1`},
		{"invalid UTF-8 in an id", `{"jsonrpc":"2.0","id":"` + "\xff" + `","method":"m"}`, Refusal{UTF8, 23, "/id"}, Invalid, ""},
		{"invalid UTF-8 in a method", `{"jsonrpc":"2.0","id":1,"method":"m` + "\xc3" + `"}`, Refusal{UTF8, 35, "/method"}, Request, `1`},
		{"invalid UTF-8 in the name of a member", `{"jsonrpc":"2.0","id":1,"` + "\x80" + `":1,"method":"m"}`, Refusal{UTF8, 25, ""}, Invalid, `1`},
		{"overlong slash in a method", `{"jsonrpc":"2.0","id":1,"method":"tools` + "\xc0\xaf" + `call"}`, Refusal{UTF8, 39, "/method"}, Request, `1`},
		{"overlong NUL in an error message", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + "\xc0\x80" + `"}}`, Refusal{UTF8, 53, "/error/message"}, ErrorResponse, `1`},
		{"surrogate in UTF-8 in error data", `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","data":["` + "\xed\xa0\x80" + `"]}}`, Refusal{UTF8, 65, "/error/data/0"}, ErrorResponse, `1`},
		{"half a surrogate pair in an id", `{"jsonrpc":"2.0","id":"\ud800","method":"m"}`, Refusal{Surrogate, 23, "/id"}, Invalid, ""},
		{"half a surrogate pair in a method", `{"jsonrpc":"2.0","id":1,"method":"\udc00"}`, Refusal{Surrogate, 34, "/method"}, Request, `1`},
		{"reversed surrogate pair in params", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ude00\ud83d"}}`, Refusal{Surrogate, 52, "/params/a"}, Request, `1`},
		{"half a surrogate pair in the name of a member", `{"jsonrpc":"2.0","id":1,"\ud83d":1,"method":"m"}`, Refusal{Surrogate, 25, ""}, Invalid, `1`},
		{"id with a leading zero", `{"jsonrpc":"2.0","id":01,"method":"m"}`, Refusal{Number, 22, "/id"}, Invalid, ""},
		{"id with a plus", `{"jsonrpc":"2.0","id":+1,"method":"m"}`, Refusal{Syntax, 22, "/id"}, Invalid, ""},
		{"id 1.", `{"jsonrpc":"2.0","id":1.,"method":"m"}`, Refusal{Number, 22, "/id"}, Invalid, ""},
		{"id NaN", `{"jsonrpc":"2.0","id":NaN,"method":"m"}`, Refusal{Syntax, 22, "/id"}, Invalid, ""},
		{"error code with a leading zero", `{"jsonrpc":"2.0","id":1,"error":{"code":-00,"message":"m"}}`, Refusal{Number, 40, "/error/code"}, ErrorResponse, `1`},
		{"comma before the end", `{"jsonrpc":"2.0","id":1,"method":"m",}`, Refusal{Syntax, 37, ""}, Request, `1`},
		{"comment inside", `{"jsonrpc":"2.0",/*id*/"id":1,"method":"m"}`, Refusal{Syntax, 17, ""}, Invalid, ""},
		{"single quotes", "{'jsonrpc':'2.0'}", Refusal{Syntax, 1, ""}, Invalid, ""},
	}
}

func aroundMessages() []Message {
	return []Message{
		{"empty text", ``, Refusal{EOF, 0, ""}, Invalid, ""},
		{"trailing text", `{"jsonrpc":"2.0","id":1,"method":"m"}{}`, Refusal{Trailing, 37, ""}, Request, `1`},
		{"malformed after an invalid message", `{"jsonrpc":"1.0","id":1,"method":3} x`, Refusal{Trailing, 36, ""}, Request, `1`},
		{"malformed after another value", `[1,2]]`, Refusal{Trailing, 5, ""}, Invalid, ""},
		{"line feed after", message + "\n", Refusal{}, Request, `1`},
		{"carriage return and line feed after", message + "\r\n", Refusal{}, Request, `1`},
		{"white space of every kind around", "\t\r\n " + message + " \n\r\t", Refusal{}, Request, `1`},
		{"second message after", message + message, Refusal{Trailing, 37, ""}, Request, `1`},
		{"second message on the next line", message + "\n" + message, Refusal{Trailing, 38, ""}, Request, `1`},
		{"brace after", message + "}", Refusal{Trailing, 37, ""}, Request, `1`},
		{"bracket after", message + "]", Refusal{Trailing, 37, ""}, Request, `1`},
		{"comma after", message + ",", Refusal{Trailing, 37, ""}, Request, `1`},
		{"NUL after", message + "\x00", Refusal{Trailing, 37, ""}, Request, `1`},
		{"byte order mark after", message + "\uFEFF", Refusal{Trailing, 37, ""}, Request, `1`},
		{"form feed after", message + "\f", Refusal{Trailing, 37, ""}, Request, `1`},
		{"no-break space after", message + "\u00A0", Refusal{Trailing, 37, ""}, Request, `1`},
		{"byte that is not UTF-8 after", message + "\xff", Refusal{Trailing, 37, ""}, Request, `1`},
		{"comment after", message + "// done", Refusal{Trailing, 37, ""}, Request, `1`},
		{"word after", message + "null", Refusal{Trailing, 37, ""}, Request, `1`},
		{"byte order mark before", "\uFEFF" + message, Refusal{BOM, 0, ""}, Invalid, ""},
		{"two byte order marks before", "\uFEFF\uFEFF" + message, Refusal{BOM, 0, ""}, Invalid, ""},
		{"NUL before", "\x00" + message, Refusal{Syntax, 0, ""}, Invalid, ""},
		{"record separator before", "\x1e" + message, Refusal{Syntax, 0, ""}, Invalid, ""},
		{"Content-Length before", "Content-Length: 37\r\n\r\n" + message, Refusal{Syntax, 0, ""}, Invalid, ""},
		{"UTF-16", "{\x00\"\x00j\x00", Refusal{Syntax, 1, ""}, Invalid, ""},
		{"a NUL alone", "\x00", Refusal{Syntax, 0, ""}, Invalid, ""},
		{"white space alone", " \r\n\t", Refusal{EOF, 4, ""}, Invalid, ""},
	}
}

func noMessages() []Message {
	return []Message{
		{"null", `null`, Refusal{NoObject, 0, ""}, Invalid, ""},
		{"string", ` "x"`, Refusal{NoObject, 1, ""}, Invalid, ""},
		{"number", `1`, Refusal{NoObject, 0, ""}, Invalid, ""},
		{"batch", ` [{"jsonrpc":"2.0","id":1,"method":"m"}]`, Refusal{Batched, 1, ""}, Invalid, ""},
		{"empty batch", `[]`, Refusal{Batched, 0, ""}, Invalid, ""},
	}
}
