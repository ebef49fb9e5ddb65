package httpcore

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// reader records by how many bytes a buffer passed to Read exceeds the number of bytes read so far.
type reader struct {
	text  []byte
	given int // number of bytes read so far
	most  int // largest len(p) - given
}

func (r *reader) Read(p []byte) (int, error) {
	r.most = max(r.most, len(p)-r.given)
	n := copy(p[:min(len(p), 10_000)], r.text)
	r.text = r.text[n:]
	if r.given += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestMemoryGrowsWithReceivedBytes(t *testing.T) {
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, 5*firstRead + 3} {
		want := bytes.Repeat([]byte("x"), size)
		r := &reader{text: want}
		got, err := readLength(r, size)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
		if r.most > firstRead {
			t.Errorf("%d bytes: a buffer had %d bytes more than had arrived", size, r.most)
		}
		if _, err := readLength(&reader{text: want}, size+1); err == nil {
			t.Errorf("%d bytes of %d are accepted as complete", size, size+1)
		}
	}
	r := new(reader)
	if _, err := readLength(r, 16<<20); err == nil || r.most > firstRead {
		t.Errorf("without data, a buffer has %d bytes (%v)", r.most, err)
	}
}

// A password that contains a slash makes a URL malformed.
// Some servers quote the request in their responses. Errors are logged, and must not contain the
// secrets in it.
func TestStatusErrorOmitsSecretsOfTheRequest(t *testing.T) {
	header := http.Header{
		"Authorization": {"Bearer plan/ted-token"}, "X-Api-Key": {"planted-key"}, "Mcp-Session-Id": {"planted-session"},
		"Cookie": {"a=planted-cookie"}, "Mcp-Name": {"public-name"}, "User-Agent": {"public-agent"}, "X-Flag": {"true"},
	}
	quoted := `plan/ted-token plan\/ted-token planted-key planted-session planted-cookie public-name public-agent true`
	for kind, body := range map[string]string{
		"text/plain":       "bad request: " + quoted,
		"application/json": `{"jsonrpc":"2.0","id":"planted-session","error":{"code":-32000,"message":"bad: ` + quoted + `","data":["` + quoted + `",0]}}`,
	} {
		resp := &http.Response{
			StatusCode: 500, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
			Request: &http.Request{Method: "POST", Header: header},
		}
		err, id := Status(resp)
		text := err.Error() + err.Body
		if err.RPC != nil {
			text += err.RPC.Message + string(err.RPC.Data)
		}
		if strings.Contains(text, "ted-") || !strings.Contains(text, "[secret] public-name public-agent true") {
			t.Errorf("%s: %s", kind, text)
		}
		if again, _ := io.ReadAll(resp.Body); string(again) != body || kind == "application/json" && (id.IsZero() || err.RPC == nil) {
			t.Errorf("%s: read again: %s, id %v", kind, again, id)
		}
	}
	request := &http.Request{Method: "POST", Header: http.Header{}}
	request.SetBasicAuth("ann", "planted-password")
	resp := &http.Response{StatusCode: 401, Body: io.NopCloser(strings.NewReader("wrong password planted-password")), Request: request}
	if err, _ := Status(resp); err.Body != "wrong password [secret]" {
		t.Errorf("password: %s", err.Body)
	}
}

func TestParseURLErrorOmitsSecrets(t *testing.T) {
	for _, text := range []string{"http://ann:secret/2@host/mcp", "http://ann:secret@host:x/mcp?key=secret", "ftp://ann:secret@host/"} {
		if _, err := ParseURL(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// net/http may still read the body of an earlier attempt.
func TestEachAttemptHasItsOwnBody(t *testing.T) {
	r := Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "localhost"}, Text: []byte("text"), Body: new(bytes.Reader)}
	first := r.httpRequest(t.Context())
	io.CopyN(io.Discard, first.Body, 2)
	second := r.httpRequest(t.Context())
	again, err := first.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		body io.Reader
		want string
	}{{again, "text"}, {second.Body, "text"}, {first.Body, "xt"}} {
		if got, err := io.ReadAll(row.body); string(got) != row.want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, row.want)
		}
	}
}
