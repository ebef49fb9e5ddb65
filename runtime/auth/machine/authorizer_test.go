package machine_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

const (
	serverURL = "https://mcp.example.com/mcp"
	issuerURL = "https://as.example.com"
)

// network is a protected server and its authorization server, in memory.
type network struct {
	metadata string // further members of the authorization server's
	token    func(r posted) (status int, answer string)
	requests []posted // to the token endpoint
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	switch req.URL.String() {
	case "https://mcp.example.com/.well-known/oauth-protected-resource/mcp":
		io.WriteString(w, `{"resource":"`+serverURL+`","authorization_servers":["`+issuerURL+`"],"scopes_supported":["read"]}`)
	case issuerURL + "/.well-known/oauth-authorization-server":
		io.WriteString(w, `{"issuer":"`+issuerURL+`","token_endpoint":"`+issuerURL+`/token","scopes_supported":["read","offline_access"]`+n.metadata+`}`)
	case issuerURL + "/token":
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		form, err := url.ParseQuery(string(text))
		if err != nil {
			return nil, err
		}
		r := posted{form, req.Header}
		n.requests = append(n.requests, r)
		status, answer := http.StatusOK, `{"access_token":"access","token_type":"Bearer"}`
		if n.token != nil {
			if status, answer = n.token(r); status == http.StatusBadRequest {
				w.Header().Set("DPoP-Nonce", "nonce-of-the-issuer")
			}
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	resp := w.Result()
	resp.Request = req
	return resp, nil
}

// call sends a request without a token, which the server rejects. It returns the repeated request,
// or the error of the flow.
func call(ctx context.Context, a *oauth.Authorizer) (*http.Request, error) {
	server, err := url.Parse(serverURL)
	if err != nil {
		return nil, err
	}
	op := httpclient.Operation{Server: server, Method: "tools/call"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, serverURL, nil)
	if err != nil {
		return nil, err
	}
	refused := &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{"Www-Authenticate": {"Bearer"}}, Request: req}
	if again, err := a.Challenged(ctx, refused, op); err != nil || !again {
		return nil, err
	}
	return req, a.Authorize(req, op)
}

func authorizer(t *testing.T, n *network, c oauth.Options, client oauth.Client) *oauth.Authorizer {
	t.Helper()
	client.Issuer, client.ID = issuerURL, "robot"
	c.Clients, c.HTTP = []oauth.Client{client}, &http.Client{Transport: n}
	a, err := oauth.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func workload(text string) oauth.Grant {
	return machine.WorkloadIdentity(func(context.Context, string) (auth.Secret, error) { return auth.NewSecret(text), nil })
}

// A server names an issuer for which the caller has configured nothing. The grants must not present
// their credentials to it.
func TestCredentialsStayAtConfiguredIssuers(t *testing.T) {
	for name, grant := range map[string]oauth.Grant{
		"workload": workload("planted-assertion"),
		"enterprise": machine.Enterprise(machine.EnterpriseOptions{
			TokenEndpoint: "https://idp.example.com/token", Client: oauth.Client{ID: "at-the-idp"},
			IDToken: func(context.Context) (auth.Secret, error) { return auth.NewSecret("planted-assertion"), nil },
		}),
		"client credentials": machine.ClientCredentials(),
	} {
		n := &network{metadata: `,"registration_endpoint":"` + issuerURL + `/register","client_id_metadata_document_supported":true`}
		a, err := oauth.New(oauth.Options{
			Grant: grant, HTTP: &http.Client{Transport: n}, ClientIDURL: "https://app.example.com/client.json",
			Clients: []oauth.Client{{Issuer: "https://login.example.com", ID: "robot", Secret: auth.NewSecret("planted-secret")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Token(t.Context(), serverURL); !errors.Is(err, oauth.ErrNoClient) {
			t.Errorf("%s: %v", name, err)
		}
		if len(n.requests) != 0 {
			t.Errorf("%s: the issuer gets %v", name, n.requests)
		}
	}
}

func TestAssertionIsSentToItsRecipient(t *testing.T) {
	for audience, ok := range map[string]bool{issuerURL: true, "https://login.example.com": false} {
		n := &network{}
		grant := machine.WorkloadIdentity(func(context.Context, string) (auth.Secret, error) {
			return auth.NewSecret("planted-assertion").For(audience), nil
		})
		_, err := authorizer(t, n, oauth.Options{Grant: grant}, oauth.Client{}).Token(t.Context(), serverURL)
		if ok != (err == nil) || !ok && (!errors.Is(err, auth.ErrRecipient) || len(n.requests) != 0) {
			t.Errorf("for %s: %v, %d requests", audience, err, len(n.requests))
		}
	}
}

// Some authorization servers quote the request in their error_description.
func TestErrorOmitsSecretsOfTheRequest(t *testing.T) {
	password := func(r posted) string {
		_, password, _ := (&http.Request{Header: r.header}).BasicAuth()
		return password
	}
	for name, quote := range map[string]func(posted) string{
		"header":   func(r posted) string { return r.header.Get("Authorization") },
		"password": password,
		"secret":   func(r posted) string { secret, _ := url.QueryUnescape(password(r)); return secret },
		"form":     func(r posted) string { return r.form.Encode() },
		"field":    func(r posted) string { return r.form.Get("client_secret") + r.form.Get("assertion") },
	} {
		for _, method := range []string{"client_secret_basic", "client_secret_post"} {
			n := &network{token: func(r posted) (int, string) {
				text, _ := json.Marshal(map[string]string{"error": "invalid_request", "error_description": quote(r)})
				return http.StatusUnauthorized, string(text)
			}}
			a := authorizer(t, n, oauth.Options{Grant: workload("planted/assertion")}, oauth.Client{Secret: auth.NewSecret("planted/secret"), Method: method})
			_, err := a.Token(t.Context(), serverURL)
			encoded := base64.StdEncoding.EncodeToString([]byte("robot:planted%2Fsecret"))
			if text := fmt.Sprint(err); !strings.Contains(text, "invalid_request") || strings.Contains(text, "planted") || strings.Contains(text, encoded) {
				t.Errorf("%s, %s: %v", name, method, err)
			}
		}
	}
}

func TestGrantsWorkInAnAuthorizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, public := newKey(t, "")
		for _, c := range []struct {
			name     string
			grant    oauth.Grant
			client   oauth.Client
			metadata string
			want     string // the form
		}{
			{"secret", machine.ClientCredentials(), oauth.Client{Secret: auth.NewSecret("hunter2")}, "", "grant_type=client_credentials"},
			{"private key", machine.ClientCredentials(), oauth.Client{Auth: machine.PrivateKeyJWT(key)},
				`,"token_endpoint_auth_methods_supported":["private_key_jwt"]`,
				"client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&grant_type=client_credentials"},
			{"workload", workload("assertion"), oauth.Client{}, `,"token_endpoint_auth_methods_supported":["none"]`,
				"assertion=assertion&client_id=robot&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"},
		} {
			n := &network{metadata: c.metadata}
			req, err := call(t.Context(), authorizer(t, n, oauth.Options{Grant: c.grant}, c.client))
			if err != nil || req.Header.Get("Authorization") != "Bearer access" || len(n.requests) != 1 {
				t.Errorf("%s: %v, %v, %d token requests", c.name, req, err, len(n.requests))
				continue
			}
			form := n.requests[0].form
			if assertion := form.Get("client_assertion"); assertion != "" {
				if _, claims := verify(t, assertion, public); claims["aud"] != issuerURL {
					t.Errorf("%s: %v", c.name, claims)
				}
				form.Del("client_assertion")
			}
			// Without a user, offline_access has no effect.
			if want := c.want + "&resource=https%3A%2F%2Fmcp.example.com%2Fmcp&scope=read"; form.Encode() != want {
				t.Errorf("%s: form %s, want %s", c.name, form.Encode(), want)
			}
		}
	})
}

func TestRefusedWorkloadIsNotRepeated(t *testing.T) {
	for _, code := range []string{"invalid_grant", "invalid_scope", "unauthorized_client", "invalid_client"} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{token: func(posted) (int, string) { return http.StatusUnauthorized, `{"error":"` + code + `"}` }}
			a := authorizer(t, n, oauth.Options{Grant: workload("planted-assertion")}, oauth.Client{})
			for range 3 { // the delay after the failure prevents further requests
				_, err := call(t.Context(), a)
				if err == nil || !strings.Contains(err.Error(), code) || strings.Contains(err.Error(), "planted") {
					t.Errorf("%s: %v", code, err)
				}
			}
			if len(n.requests) != 1 {
				t.Errorf("%s: %d token requests, want one", code, len(n.requests))
			}
		})
	}
}

func TestDPoPWithANonceOfTheIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{metadata: `,"dpop_signing_alg_values_supported":["ES256"]`}
		n.token = func(r posted) (int, string) {
			if _, claims := verify(t, r.header.Get("DPoP"), nil); claims["nonce"] != "nonce-of-the-issuer" {
				return http.StatusBadRequest, `{"error":"use_dpop_nonce"}`
			}
			return http.StatusOK, `{"access_token":"access","token_type":"DPoP"}`
		}
		a := authorizer(t, n, oauth.Options{Grant: machine.ClientCredentials(), Prover: machine.DPoP(nil)}, oauth.Client{Secret: auth.NewSecret("hunter2")})
		req, err := call(t.Context(), a)
		if err != nil || len(n.requests) != 2 || req.Header.Get("Authorization") != "DPoP access" {
			t.Fatalf("%v, %v, %d token requests", req, err, len(n.requests))
		}
		ids := map[any]bool{}
		var jwk any
		for i, proof := range []string{n.requests[0].header.Get("DPoP"), n.requests[1].header.Get("DPoP"), req.Header.Get("DPoP")} {
			header, claims := verify(t, proof, nil)
			ids[claims["jti"]] = true
			if text := header["jwk"].(map[string]any)["x"]; i == 0 {
				jwk = text
			} else if text != jwk {
				t.Error("a proof has another key than the first one")
			}
			if want := i == 2; (claims["ath"] != nil) != want || (claims["htu"] == serverURL) != want {
				t.Errorf("claims of proof %d: %v", i, claims)
			}
		}
		if len(ids) != 3 {
			t.Errorf("ids of three proofs: %v", ids)
		}
	})
}
