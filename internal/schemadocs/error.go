package schemadocs

import (
	"bytes"
	"strconv"
)

// Error is a fault in a schema or in the documentation. Printed behind a file name and a
// colon it is the usual FILE:LINE:COLUMN: message.
type Error struct {
	Line    int    // from 1
	Column  int    // in bytes, from 1; 0 if the fault is the whole line's
	Pointer string // RFC 6901 pointer to the faulty value, "" for the root or in the documentation
	Err     error  // the cause; never nil
}

// Error returns LINE:COLUMN: POINTER: MESSAGE, without the parts that are not known.
func (e *Error) Error() string {
	s := strconv.Itoa(e.Line) + ":"
	if e.Column > 0 {
		s += strconv.Itoa(e.Column) + ":"
	}
	if e.Pointer != "" {
		s += " " + e.Pointer + ":"
	}
	return s + " " + e.Err.Error()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// errorAt returns an Error for the byte at offset in src.
func errorAt(src []byte, offset int64, pointer string, err error) *Error {
	line, column := position(src, offset)
	return &Error{Line: line, Column: column, Pointer: pointer, Err: err}
}

// position returns the line and column of the byte at offset in src, both from 1.
func position(src []byte, offset int64) (line, column int) {
	before := src[:min(max(offset, 0), int64(len(src)))]
	line = 1 + bytes.Count(before, []byte("\n"))
	return line, len(before) - bytes.LastIndexByte(before, '\n') // -1 on the first line
}
