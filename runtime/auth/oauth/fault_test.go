package oauth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/mockas"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// hang does not answer until the client cancels the request.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html>sesame</html>")
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { mockas.JSON(w, http.StatusOK, v) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

// echo answers with an error that repeats the whole request.
func echo(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		text := ""
		for _, values := range r.Form {
			text += " " + strings.Join(values, " ")
		}
		mockas.Fail(w, code, "invalid_request:"+text, text+r.Header.Get("Authorization"))
	}
}

// Proves AUTH-30.
func TestFailedFlowIsReportedAndDelayed(t *testing.T) {
	const (
		metadata = "/.well-known/oauth-authorization-server"
		openID   = "/.well-known/openid-configuration"
		document = "/.well-known/oauth-protected-resource/mcp"
	)
	override := func(path string, h http.HandlerFunc) func(*world) { return func(w *world) { w.as.Override(path, h) } }
	both := func(h http.HandlerFunc) func(*world) {
		return func(w *world) { w.as.Override(metadata, h); w.as.Override(openID, h) }
	}
	member := func(name string, value any) func(*world) { return func(w *world) { w.document()[name] = value } }
	names := func(issuer string) func(*world) {
		return func(w *world) { w.resource.Documents[document]["authorization_servers"] = []string{issuer} }
	}
	token := func(change func(map[string]any)) func(*world) {
		return func(w *world) {
			v := map[string]any{"access_token": "sesame-access", "token_type": "Bearer", "expires_in": 60}
			change(v)
			w.as.Override("/token", answer(v))
		}
	}
	for _, test := range []struct {
		name  string
		fault func(*world)
		want  string // a part of the error
		is    error
	}{
		// addresses
		{"metadata of the server at a private address", func(w *world) {
			w.resource.Challenge = `resource_metadata="https://169.254.169.254/latest"`
		}, "169.254.169.254 is not a public address", nil},
		{"issuer at a private address", names("https://10.0.0.1"), "10.0.0.1 is not a public address", nil},
		{"issuer at localhost", names("https://localhost:8443"), "not allowed", nil},
		{"issuer in the local network", names("https://router.local"), "not allowed", nil},
		{"issuer that is no URL", names("://"), "malformed URL", nil},
		{"issuer with a query", names(issuer + "?a=b"), "is not an issuer", oauth.ErrIssuer},
		{"token endpoint at a private address", member("token_endpoint", "https://192.168.0.1/token"), "not a public address", nil},
		{"redirect to a private address", both(redirect("https://10.0.0.1/x")), "not a public address", nil},
		{"redirect to http", both(redirect("http://as.example/x")), `scheme "http" is not https`, nil},
		// content
		{"page instead of metadata", both(page), "content type", nil},
		{"catch-all page of the server", func(w *world) {
			clear(w.resource.Documents)
			w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					page(rw, r)
					return
				}
				w.resource.ServeHTTP(rw, r)
			}))
		}, "Options.Issuer", nil},
		{"huge metadata", both(answer(map[string]string{"issuer": issuer, "x": strings.Repeat("x", 1<<20)})), "more than 1048576 bytes", nil},
		{"endless token", override("/token", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"access_token":"`, strings.Repeat("sesame", 20000))
		}), "more than 65536 bytes", nil},
		{"redirect loop", both(redirect(issuer + metadata)), "more than 3 redirects", nil},
		{"no token endpoint", member("token_endpoint", ""), "no token_endpoint", nil},
		{"no authorization endpoint", member("authorization_endpoint", ""), "no authorization_endpoint", nil},
		{"metadata of a wrong type", member("scopes_supported", "all"), "cannot unmarshal", nil},
		{"no authorization servers", func(w *world) { delete(w.resource.Documents[document], "authorization_servers") }, "names no authorization server", nil},
		// down and slow
		{"connection refused", names("https://down.example"), "connection refused", nil},
		{"metadata fails", both(status(500)), "status 500", nil},
		{"metadata hangs", both(hang), "deadline exceeded", nil},
		{"registration fails", override("/register", status(503)), "status 503", nil},
		{"registration hangs", override("/register", hang), "deadline exceeded", nil},
		{"registration is redirected", override("/register", redirect("/elsewhere")), "status 307", nil},
		{"registration refused", override("/register", func(w http.ResponseWriter, r *http.Request) {
			mockas.Fail(w, 400, "invalid_redirect_uri", "loopback is not allowed\x1b[31m")
		}), "invalid_redirect_uri (loopback is not allowed[31m)", nil},
		{"registration without id", override("/register", answer(map[string]any{})), "no client_id", nil},
		{"registration of another redirect URI", override("/register", answer(map[string]any{"client_id": "x", "redirect_uris": []string{"https://evil.example"}})), "was not registered", nil},
		{"token endpoint fails", override("/token", status(500)), "status 500", nil},
		{"token endpoint hangs", override("/token", hang), "deadline exceeded", nil},
		{"token endpoint is redirected", override("/token", redirect("https://evil.example/")), "status 307", nil},
		{"token endpoint has a page", override("/token", page), "content type", nil},
		{"error with all that was sent", override("/token", echo(400)), "invalid_request: ", nil},
		// tokens
		{"no token", token(func(v map[string]any) { delete(v, "access_token") }), "no access_token", nil},
		{"unknown type", token(func(v map[string]any) { v["token_type"] = "mac" }), `token type "mac"`, nil},
		{"no type", token(func(v map[string]any) { delete(v, "token_type") }), `token type ""`, nil},
		{"DPoP without a proof", token(func(v map[string]any) { v["token_type"] = "DPoP" }), `token type "DPoP"`, nil},
		{"token with a line break", token(func(v map[string]any) { v["access_token"] = "sesame\r\nX: y" }), "characters that are not allowed in a header", nil},
		{"token of a wrong type", token(func(v map[string]any) { v["access_token"] = []string{"sesame"} }), `"access_token" of the response has a wrong type`, nil},
		{"token that is no token", token(func(v map[string]any) {}), "the server rejects the token", nil},
		// users
		{"denied", func(w *world) {
			w.browser.Answer = func(v url.Values) {
				v.Del("code")
				v.Set("error", "access_denied")
				v.Set("error_description", "not today")
			}
		}, "access_denied (not today)", oauth.ErrDenied},
		{"user agent fails", func(w *world) { w.browser.Refuse = errors.New("no browser found") }, "no browser found", nil},
		{"user does not answer", func(w *world) {
			w.browser.Before = func(ctx context.Context, _ string) { <-ctx.Done() }
		}, "the user did not authorize within 5m0s", context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := newWorld(t, func(w *world, c *oauth.Options) {
					w.as.AddClient("mine", "sesame-secret")
					c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				})
				test.fault(w)
				_, err := w.call()
				if err == nil || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
					t.Errorf("call: %v, want %q", err, test.want)
				}
				var failed *oauth.Error
				if !errors.As(err, &failed) || failed.Server != serverURL || !failed.Retry.After(time.Now()) {
					t.Errorf("error %#v", failed)
				}
				texts := log.String() + fmt.Sprint(err) + fmt.Sprintf("%+v %#v", failed, failed)

				// The next requests fail at once, with the cause.
				attempts := len(w.network.Requests()) - len(w.network.Requests("POST "+serverURL))
				for range 20 {
					if _, err = w.call(); !errors.Is(err, oauth.ErrBackoff) || !strings.Contains(err.Error(), test.want) {
						t.Fatalf("call after that: %v", err)
					}
				}
				if n := len(w.network.Requests()) - len(w.network.Requests("POST "+serverURL)); n != attempts {
					t.Errorf("%d requests while it waits", n-attempts)
				}
				flows := 0
				for began := time.Now(); time.Since(began) < time.Hour; time.Sleep(10 * time.Second) {
					if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) {
						flows++
					}
				}
				if flows > 130 { // about 40 on average, as delays are random up to 5 minutes; with pauses of 30 s, 120
					t.Errorf("%d flows in an hour", flows)
				}
				texts += log.String()
				if n := len(w.authorizations()); n > 60 {
					t.Errorf("%d authorization requests in an hour", n)
				}
				secrets := []string{"sesame"}
				for _, r := range w.network.Requests() {
					for _, name := range []string{"code", "code_verifier", "refresh_token", "client_secret", "state", "code_challenge"} {
						secrets = append(secrets, r.Form[name]...)
					}
				}
				for _, secret := range secrets {
					if strings.Contains(texts, secret) {
						t.Errorf("%q is in errors or logs", secret)
					}
				}
			})
		})
	}
}

func TestFailedRefreshKeepsTheTokens(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"status": status(503), "slow": hang, "page": page, "code": func(w http.ResponseWriter, _ *http.Request) {
		mockas.Fail(w, http.StatusBadRequest, "temporarily_unavailable", "")
	}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(w *world, _ *oauth.Options) { w.as.Lifetime = 3600 })
				w.mustCall()
				w.network.Clear()
				w.as.Override("/token", fault)
				time.Sleep(55 * time.Minute) // the token is stale, and still valid
				for range 5 {
					w.mustCall()
				}
				if n := len(w.tokenRequests("refresh_token")); n != 1 {
					t.Errorf("%d refreshs", n)
				}
				time.Sleep(10 * time.Minute) // it has expired
				if _, err := w.call(); err == nil || errors.Is(err, oauth.ErrLoginNeeded) {
					t.Errorf("call: %v", err)
				}
				if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) {
					t.Errorf("call after that: %v", err)
				}
				if n := len(w.authorizations()); n != 0 {
					t.Errorf("%d authorization requests", n)
				}
				w.as.Override("/token", nil)
				time.Sleep(10 * time.Minute)
				w.mustCall()
				if n := len(w.authorizations()); n != 0 {
					t.Errorf("%d authorization requests", n)
				}
			})
		})
	}
}

// An authorization server that hangs hardly delays requests while the token is valid. Its response is
// used when it comes.
func TestSlowRefreshDoesNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.as.Lifetime = 3600 })
		w.mustCall()
		proceed := make(chan struct{})
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			<-proceed
			w.as.Override("/token", nil)
			w.as.ServeHTTP(rw, r)
		})
		time.Sleep(55 * time.Minute) // the token is stale
		w.network.Clear()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			began := time.Now()
			if status, err := send(ctx, w.network, w.a, serverURL, tool); status != http.StatusOK || err != nil {
				t.Errorf("%d, %v", status, err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("a request with a deadline took %v", took)
			}
			cancel()
		}
		began := time.Now()
		w.mustCall()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a request took %v", took)
		}
		close(proceed)
		synctest.Wait()
		time.Sleep(30 * time.Minute)
		w.mustCall()
		if n := len(w.tokenRequests("refresh_token")); n != 1 {
			t.Errorf("%d refreshes", n)
		}
	})
}

func TestRetryAfterDelaysNextFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Retry-After", "120")
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		_, err := w.call()
		var failed *oauth.Error
		if !errors.As(err, &failed) || time.Until(failed.Retry) != 2*time.Minute {
			t.Errorf("%v; retry after %v", err, time.Until(failed.Retry))
		}
		w.as.Override("/token", nil)
		time.Sleep(2*time.Minute - time.Second)
		if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) {
			t.Errorf("call before the time: %v", err)
		}
		time.Sleep(time.Second)
		w.mustCall()
	})
}

func TestRetryAfterIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.as.Override("/token", func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Retry-After", "3600")
			rw.WriteHeader(http.StatusServiceUnavailable)
		})
		var failed *oauth.Error
		if _, err := w.call(); !errors.As(err, &failed) || time.Until(failed.Retry) > 5*time.Minute {
			t.Errorf("%v; retry after %v", err, time.Until(failed.Retry))
		}
	})
}

func TestUnreachableServerIsAskedOnce(t *testing.T) {
	for _, host := range []string{"as.example", "mcp.example"} {
		w := newWorld(t, nil)
		down := http.Handler(w.as)
		if host == "mcp.example" {
			down = w.resource
		}
		w.network.Handle(host, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/.well-known/") {
				http.Redirect(rw, r, "https://down.example/", http.StatusFound)
				return
			}
			down.ServeHTTP(rw, r)
		}))
		if _, err := w.call(); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: %v", host, err)
		}
		if got := gets(w.network, host); len(got) != 1 {
			t.Errorf("%s: GET %q", host, got)
		}
	}
}

func TestUserIsNotAskedAgainImmediatelyAfterDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) {
			w.browser.Answer = func(v url.Values) { v.Set("error", "access_denied") }
		})
		if _, err := w.call(); !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("call: %v", err)
		}
		time.Sleep(29 * time.Second)
		if _, err := w.call(); !errors.Is(err, oauth.ErrBackoff) || !errors.Is(err, oauth.ErrDenied) {
			t.Errorf("call: %v", err)
		}
		if n := len(w.authorizations()); n != 1 {
			t.Errorf("%d authorization requests", n)
		}
		w.browser.Answer = nil
		if err := w.a.Login(t.Context(), serverURL); err != nil {
			t.Errorf("login at the wish of the user: %v", err)
		}
		w.mustCall()
	})
}

func TestFailedUserAgentIsNotRestartedImmediately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world, _ *oauth.Options) { w.browser.Refuse = errors.New("the window was closed") })
		for range 3 {
			var failed *oauth.Error
			if _, err := w.call(); !errors.As(err, &failed) || errors.Is(err, oauth.ErrBackoff) || time.Until(failed.Retry) != 30*time.Second {
				t.Errorf("%v; retry after %v", err, time.Until(failed.Retry))
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// A server that rejects every new token must not open the browser again and again.
func TestFlowsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.network.Handle("mcp.example", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.resource.ServeHTTP(rw, r)
				return
			}
			rw.WriteHeader(http.StatusUnauthorized)
		}))
		for range 600 {
			w.call()
			time.Sleep(time.Second)
		}
		if n := len(w.authorizations()); n > 10 {
			t.Errorf("%d authorization requests in 10 minutes", n)
		}
		if n := len(gets(w.network, "mcp.example")); n > 31 {
			t.Errorf("%d requests for resource metadata in 10 minutes", n)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]oauth.Options{
		"client without issuer":    {Clients: []oauth.Client{{ID: "a"}}},
		"client without id":        {Clients: []oauth.Client{{Issuer: issuer}}},
		"DPoP without a prover":    {RequireDPoP: true},
		"negative limit":           {MaxStepUps: -1},
		"issuer without TLS":       {Issuer: "http://as.example"},
		"issuer that is no URL":    {Issuer: "as"},
		"document without a path":  {ClientIDURL: "https://client.example"},
		"redirect URI without TLS": {Registration: oauth.ClientMetadata{RedirectURIs: []string{"http://example.com/cb"}}},
	} {
		if _, err := oauth.New(c); err == nil {
			t.Errorf("%s: New succeeds", name)
		}
	}
	if _, err := oauth.New(oauth.Options{Issuer: "http://localhost:1", Clients: []oauth.Client{{Issuer: "*", ID: "a", Secret: auth.NewSecret("x")}}}); err != nil {
		t.Error(err)
	}
}
