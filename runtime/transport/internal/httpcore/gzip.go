package httpcore

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
)

var acceptGzip = []string{"gzip"} // shared by all requests

// AcceptGzip adds Accept-Encoding to the header of POSTs, and [End.Do] decompresses the responses.
// Package http does the same for a request without Accept-Encoding, but allocates a header for
// each. AcceptGzip leaves it to package http if the header passes through code of the user, and
// adds nothing if the user has disabled compression.
func (e *End) AcceptGzip(h http.Header) {
	if e.plain != nil && !e.plain.DisableCompression {
		h["Accept-Encoding"] = acceptGzip
	}
}

// decompress makes the body of a compressed response, and its header, what they are without
// compression. It does not wait for the body.
func decompress(resp *http.Response) {
	if resp.ContentLength == 0 || !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	delete(resp.Header, "Content-Encoding")
	delete(resp.Header, "Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
	resp.Body = &gzipBody{ReadCloser: resp.Body}
}

// gzipBody decompresses a body.
type gzipBody struct {
	io.ReadCloser              // compressed
	plain         *gzip.Reader // nil before the first Read
	err           error        // of the gzip header
}

// Read implements [io.Reader].
func (b *gzipBody) Read(p []byte) (int, error) {
	if b.plain == nil && b.err == nil {
		b.plain, b.err = gzip.NewReader(b.ReadCloser)
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.plain.Read(p)
}
