//go:build !go1.27

package value

import (
	"io"
	"reflect"

	engine "github.com/goccy/go-json/v2"
)

// See methods_go127.go.
var (
	standardReader, standardWriter reflect.Type
	standardReaders                *engine.Unmarshalers
)

func standardMarshal(io.Writer, any) error { panic("unreachable") }
