package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	officialauth "github.com/modelcontextprotocol/go-sdk/auth"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/mcpwire/mcpwire/internal/browsertest"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/jwtauth"
	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/provider"
	"github.com/mcpwire/mcpwire/runtime/auth/trial"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// The authorization server of most of these tests is oidc-provider. The protected servers demand the scope
// "mcp", and the scope "write" for the tool write.

// redirectURI is where oidc-provider sends the users of other clients. No server listens there.
const redirectURI = "http://127.0.0.1:9/callback"

// startProvider starts oidc-provider and returns its issuer.
func startProvider(t *testing.T) (issuer string) {
	t.Helper()
	needPackages(t, "oidcprovider")
	cmd := exec.Command("node", filepath.Join("oidcprovider", "server.mjs"))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(&errs)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server prints no issuer: %v", err)
	}
	return strings.TrimSpace(line)
}

// A protectedServer is a server of this module with a Protector.
type protectedServer struct {
	url string

	mu      sync.Mutex
	calls   []string // of tools, with their principal
	schemes []string // of the tokens that were verified
	revoked map[string]bool
}

// A revoking verifier rejects revoked tokens.
type revoking struct {
	jwtauth.Verifier
	x *protectedServer
}

// An issuer is an authorization server. Verifier is nil for JSON Web Tokens.
type issuer struct {
	name, url string
	verifier  auth.Verifier
}

// startIssuers starts oidc-provider and the authorization server for trials of this module, which
// has the user ann.
func startIssuers(t *testing.T) []issuer {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	at := "http://" + web.Listener.Addr().String()
	s, err := trial.New(trial.Options{Issuer: at, Scopes: []string{"mcp", "write"}, Users: []string{"ann"}, Approve: true})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = s.Handler(nil)
	web.Start()
	t.Cleanup(web.Close)
	return []issuer{{name: "oidc-provider", url: startProvider(t)}, {"trial", at, s}}
}

// protect starts a server whose tokens are those of an issuer. A nil verifier stands for that of JSON
// Web Tokens.
func protect(t *testing.T, issuer string, verifier auth.Verifier) *protectedServer {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	x := &protectedServer{url: "http://" + web.Listener.Addr().String() + "/mcp", revoked: map[string]bool{}}
	if verifier == nil {
		tokens, err := jwtauth.New(issuer, nil)
		if err != nil {
			t.Fatal(err)
		}
		verifier = revoking{tokens, x}
	}
	p, err := auth.NewProtector(auth.Options{Resource: x.url, Issuers: []string{issuer}, Verifier: verifier, Scopes: []string{"mcp"}, CacheTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New("mcpwire", "1", nil)
	tool := func(name string) server.ToolFunc[struct{}, string] {
		return func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.calls = append(x.calls, name+" "+c.Principal())
			return name, nil
		}
	}
	server.AddTool(s, "read", "", tool("read"))
	server.AddTool(s, "write", "", tool("write"), server.RequireScopes("write"))
	handler := must.Get(s.Handler(&streamable.HandlerOptions{Auth: p}))
	web.Config.Handler = p.Handler(handler)
	web.Start()
	t.Cleanup(func() {
		handler.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return x
}

func (x *protectedServer) wantCalls(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if diff := cmp.Diff(want, x.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	x.calls = nil
}

// An account logs in at oidc-provider without a browser.
type account struct {
	name string

	mu     sync.Mutex
	scopes []string // of the authorization requests
}

var (
	formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)
	formHidden = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// login follows an authorization URL and submits the forms. It returns the redirect.
func (u *account) login(ctx context.Context, at string) (redirect string, err error) {
	first, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	scopes := strings.Fields(first.Query().Get("scope"))
	slices.Sort(scopes) // the official Go SDK has them in any order
	u.mu.Lock()
	u.scopes = append(u.scopes, strings.Join(scopes, " "))
	u.mu.Unlock()
	jar, err := cookiejar.New(nil)
	if err != nil {
		return "", err
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	method, form := http.MethodGet, url.Values(nil)
	for range 20 {
		req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(form.Encode()))
		if err != nil {
			return "", err
		}
		if method == http.MethodPost {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		resp, err := c.Do(req)
		if err != nil {
			return "", err
		}
		var page strings.Builder
		_, err = bufio.NewReader(resp.Body).WriteTo(&page)
		resp.Body.Close()
		if err != nil {
			return "", err
		}
		if next, err := resp.Location(); err == nil {
			at, method, form = next.String(), http.MethodGet, nil
			if strings.HasPrefix(at, redirectURI) {
				return at, nil
			}
			continue
		}
		action := formAction.FindStringSubmatch(page.String())
		if action == nil {
			return "", fmt.Errorf("%s: status %d without a form: %s", at, resp.StatusCode, &page)
		}
		target, err := resp.Request.URL.Parse(html.UnescapeString(action[1]))
		if err != nil {
			return "", err
		}
		at, method = target.String(), http.MethodPost
		form = url.Values{"login": {u.name}, "password": {"password"}, "decision": {"approve"}}
		for _, hidden := range formHidden.FindAllStringSubmatch(page.String(), -1) {
			form.Set(hidden[1], html.UnescapeString(hidden[2]))
		}
	}
	return "", errors.New("too many redirects")
}

func (u *account) wantScopes(t *testing.T, want ...string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	if diff := cmp.Diff(want, u.scopes); diff != "" {
		t.Errorf("scopes of the authorization requests (-want +got):\n%s", diff)
	}
}

// callText calls a tool of a server and returns the text of its result.
func callText(ctx context.Context, c *client.Client, tool string) (string, error) {
	result, err := c.CallTool(ctx, tool, nil)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// TestLoginAtOIDCProvider tests that our client obtains tokens from oidc-provider that our server
// accepts, more scopes when a tool needs them, and another token when one is rejected.
//
// Proves AUTH-01, AUTH-24, SDK-18.
func TestLoginAtOIDCProvider(t *testing.T) {
	issuer := startProvider(t)
	for _, test := range []struct {
		name      string
		revisions []mcp.Revision
		prover    oauth.Prover
	}{
		{"sessions", session.Revisions(), nil},
		{"2026-07-28", session.ModernRevisions(), nil},
		{"DPoP", session.ModernRevisions(), machine.DPoP(nil)},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, u := protect(t, issuer, nil), &account{name: "ann"}
			a, err := oauth.New(oauth.Options{User: loopback.Callback(redirectURI, u.login), Prover: test.prover})
			if err != nil {
				t.Fatal(err)
			}
			c, err := client.Dial(t.Context(), x.url, &client.Options{Auth: a, Session: session.Options{Revisions: test.revisions}})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, tool := range []string{"read", "write", "read"} {
				if got, err := callText(t.Context(), c, tool); got != tool || err != nil {
					t.Errorf("%s: %q, %v", tool, got, err)
				}
			}
			token, err := a.Token(t.Context(), x.url)
			if err != nil {
				t.Fatal(err)
			}
			x.mu.Lock()
			x.revoked[token.Access.Reveal()] = true
			x.mu.Unlock()
			if got, err := callText(t.Context(), c, "write"); got != "write" || err != nil { // with a refreshed token
				t.Errorf("after the token was revoked: %q, %v", got, err)
			}
			x.wantCalls(t, "read "+issuer+"#ann", "write "+issuer+"#ann", "read "+issuer+"#ann", "write "+issuer+"#ann")
			u.wantScopes(t, "mcp offline_access", "mcp offline_access write")
			x.mu.Lock()
			for _, scheme := range x.schemes {
				if (scheme == "DPoP") != (test.prover != nil) {
					t.Errorf("a token has the scheme %s", scheme)
				}
			}
			x.mu.Unlock()
			if err := a.Logout(t.Context(), x.url); err != nil {
				t.Error(err)
			}
		})
	}
}

// Our server has an authorization server of its own, in front of oidc-provider: the user consents
// there, and logs in at oidc-provider, where only the proxy is registered.
//
// Proves SDK-19.
func TestLoginThroughProxyAtOIDCProvider(t *testing.T) {
	upstream := startProvider(t)
	web := httptest.NewUnstartedServer(nil)
	at := "http://" + web.Listener.Addr().String()
	proxy, err := provider.New(provider.Options{
		Issuer: at, Resource: at + "/mcp", Scopes: []string{"mcp"},
		Upstream: provider.Upstream{
			Metadata: auth.ServerMetadata{Issuer: upstream, AuthorizationEndpoint: upstream + "/auth", TokenEndpoint: upstream + "/token"},
			Client:   oauth.Client{ID: "public", Method: "none"}, Scopes: []string{"openid"},
			Subject: func(ctx context.Context, token *oauth.Token) (string, map[string]any, error) {
				subject, err := userInfo(ctx, upstream, token.Access)
				return subject, nil, err
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := auth.NewProtector(auth.Options{Resource: at + "/mcp", Issuers: []string{at}, Verifier: proxy, Scopes: []string{"mcp"}})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New("mcpwire", "1", nil)
	server.AddTool(s, "name", "", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		token, err := proxy.UpstreamToken(ctx)
		if err != nil {
			return "", err
		}
		return userInfo(ctx, upstream, token)
	})
	handler := must.Get(s.Handler(&streamable.HandlerOptions{Auth: p}))
	web.Config.Handler = proxy.Handler(p.Handler(handler))
	web.Start()
	defer web.Close()
	defer web.CloseClientConnections()
	defer handler.Close()
	u := &account{name: "ann"}
	a, err := oauth.New(oauth.Options{User: loopback.Callback(redirectURI, u.login)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), at+"/mcp", &client.Options{Auth: a})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := callText(t.Context(), c, "name"); got != "ann" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// userInfo returns the user of a token of oidc-provider.
func userInfo(ctx context.Context, issuer string, token auth.Secret) (subject string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, issuer+"/me", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Subject string `json:"sub"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Subject, err
}

// A program without a user gets a token with its secret.
func TestClientCredentialsAtOIDCProvider(t *testing.T) {
	issuer := startProvider(t)
	x := protect(t, issuer, nil)
	a, err := oauth.New(oauth.Options{
		Grant:   machine.ClientCredentials(),
		Clients: []oauth.Client{{Issuer: issuer, ID: "machine", Secret: auth.NewSecret("machine-secret")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), x.url, &client.Options{Auth: a})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tool := range []string{"read", "write"} {
		if got, err := callText(t.Context(), c, tool); got != tool || err != nil {
			t.Errorf("%s: %q, %v", tool, got, err)
		}
	}
	x.wantCalls(t, "read "+issuer+"#machine", "write "+issuer+"#machine")
}

// The user logs in with Chromium, which the loopback user agent opens.
func TestBrowserLogsInAtOIDCProvider(t *testing.T) {
	chromium := browsertest.Find(t)
	issuer := startProvider(t)
	x := protect(t, issuer, nil)
	agent := loopback.New(&loopback.Options{Open: func(at string) error {
		out, err := exec.CommandContext(t.Context(), "node", filepath.Join("oidcprovider", "login.mjs"), string(chromium), at).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if got := strings.TrimSpace(string(out)); got != "You are logged in" {
			t.Errorf("the browser shows %q", got)
		}
		return nil
	}})
	a, err := oauth.New(oauth.Options{User: agent})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), x.url, &client.Options{Auth: a})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := callText(t.Context(), c, "read"); got != "read" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	x.wantCalls(t, "read "+issuer+"#bob")
}

// The client of the official Go SDK logs in, and again for the scope of a tool.
func TestOfficialClientLogsInAtOurServer(t *testing.T) {
	for _, issuer := range startIssuers(t) {
		for _, revision := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
			t.Run(issuer.name+" "+string(revision), func(t *testing.T) {
				x, u := protect(t, issuer.url, issuer.verifier), &account{name: "ann"}
				handler, err := officialauth.NewAuthorizationCodeHandler(&officialauth.AuthorizationCodeHandlerConfig{
					DynamicClientRegistrationConfig: &officialauth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
						ClientName: "official", RedirectURIs: []string{redirectURI},
					}},
					AuthorizationCodeFetcher: func(ctx context.Context, args *officialauth.AuthorizationArgs) (*officialauth.AuthorizationResult, error) {
						redirect, err := u.login(ctx, args.URL)
						if err != nil {
							return nil, err
						}
						got, err := url.Parse(redirect)
						if err != nil {
							return nil, err
						}
						q := got.Query()
						return &officialauth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				c := official.NewClient(&official.Implementation{Name: "official", Version: "1"}, nil)
				s, err := c.Connect(t.Context(), &official.StreamableClientTransport{Endpoint: x.url, OAuthHandler: handler},
					&official.ClientSessionOptions{ProtocolVersion: string(revision)})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				for _, tool := range []string{"read", "write"} {
					result, err := s.CallTool(t.Context(), &official.CallToolParams{Name: tool})
					if err != nil || result.Content[0].(*official.TextContent).Text != tool {
						t.Errorf("%s: %v, %v", tool, result, err)
					}
				}
				x.wantCalls(t, "read "+issuer.url+"#ann", "write "+issuer.url+"#ann")
				u.wantScopes(t, "mcp", "mcp write")
			})
		}
	}
}

// Clients of both versions of the TypeScript SDK log in, and again for the scope of a tool.
func TestTypeScriptClientsLogInAtOurServer(t *testing.T) {
	needSDK(t)
	for _, issuer := range startIssuers(t) {
		for _, version := range []string{"1", "2", "2 2026-07-28"} {
			t.Run(issuer.name+" "+version, func(t *testing.T) {
				x, u := protect(t, issuer.url, issuer.verifier), &account{name: "ann"}
				browser := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					redirect, err := u.login(r.Context(), r.FormValue("url"))
					if err != nil {
						http.Error(w, err.Error(), http.StatusInternalServerError)
						return
					}
					fmt.Fprint(w, redirect)
				}))
				defer browser.Close()
				arguments := append([]string{filepath.Join("typescript", "auth-client.mjs"), x.url, browser.URL, redirectURI}, strings.Fields(version)...)
				cmd := exec.CommandContext(t.Context(), "node", arguments...)
				cmd.Stderr = os.Stderr
				if issuer.verifier == nil {
					cmd.Env = append(os.Environ(), "CLIENT_ID=public")
				}
				out, err := cmd.Output()
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff("read read\nwrite write\n", string(out)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				x.wantCalls(t, "read "+issuer.url+"#ann", "write "+issuer.url+"#ann")
				u.wantScopes(t, "mcp", "mcp write")
			})
		}
	}
}

// Our client logs in at a protected server of the official Go SDK. Its challenges have no error, so
// clients cannot see that a scope is missing.
func TestClientLogsInAtOfficialServer(t *testing.T) {
	issuer := startProvider(t)
	verifier, err := jwtauth.New(issuer, nil)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(nil)
	origin := "http://" + web.Listener.Addr().String()
	verify := func(ctx context.Context, token string, _ *http.Request) (*officialauth.TokenInfo, error) {
		i, err := verifier.Verify(ctx, &auth.Credentials{Scheme: "Bearer", Token: auth.NewSecret(token)})
		if err != nil {
			return nil, errors.Join(officialauth.ErrInvalidToken, err)
		}
		return &officialauth.TokenInfo{Scopes: i.Scopes, Expiration: i.Expiry, UserID: i.Subject}, nil
	}
	s := official.NewServer(&official.Implementation{Name: "official", Version: "1"}, nil)
	s.AddTool(&official.Tool{Name: "name", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *official.CallToolRequest) (*official.CallToolResult, error) {
		return &official.CallToolResult{Content: []official.Content{&official.TextContent{Text: r.Extra.TokenInfo.UserID}}}, nil
	})
	mux := http.NewServeMux()
	mux.Handle("/.well-known/oauth-protected-resource/mcp", officialauth.ProtectedResourceMetadataHandler(&oauthex.ProtectedResourceMetadata{
		Resource: origin + "/mcp", AuthorizationServers: []string{issuer}, ScopesSupported: []string{"mcp"},
	}))
	mux.Handle("/mcp", officialauth.RequireBearerToken(verify, &officialauth.RequireBearerTokenOptions{
		ResourceMetadataURL: origin + "/.well-known/oauth-protected-resource/mcp", Scopes: []string{"mcp"},
	})(official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, nil)))
	web.Config.Handler = mux
	web.Start()
	defer web.Close()
	defer web.CloseClientConnections()
	u := &account{name: "ann"}
	a, err := oauth.New(oauth.Options{User: loopback.Callback(redirectURI, u.login)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), origin+"/mcp", &client.Options{Auth: a})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := callText(t.Context(), c, "name"); got != "ann" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	u.wantScopes(t, "mcp offline_access")
}

// Our client logs in at a protected server of the TypeScript SDK, and again for the scope of a tool.
func TestClientLogsInAtTypeScriptServer(t *testing.T) {
	needSDK(t)
	issuer := startProvider(t)
	t.Setenv("ISSUER", issuer)
	at, _ := serveTypeScript(t, "auth-server.mjs")
	u := &account{name: "ann"}
	a, err := oauth.New(oauth.Options{User: loopback.Callback(redirectURI, u.login)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), at+"/mcp", &client.Options{Auth: a})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tool := range []string{"read", "write"} {
		if got, err := callText(t.Context(), c, tool); got != tool+" as ann" || err != nil {
			t.Errorf("%s: %q, %v", tool, got, err)
		}
	}
	u.wantScopes(t, "mcp offline_access", "mcp offline_access write")
}
