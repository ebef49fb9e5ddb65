package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// ResourceMetadata describes a protected server (RFC 9728, section 2).
type ResourceMetadata struct {
	Resource             string   // the identifier of the server, as published
	AuthorizationServers []string // issuers
	ScopesSupported      []string
	BearerMethods        []string // bearer_methods_supported
	Name                 string   // resource_name
	Documentation        string   // resource_documentation
	Policy               string   // resource_policy_uri
	Terms                string   // resource_tos_uri
	DPoPRequired         bool     // dpop_bound_access_tokens_required
	DPoPAlgorithms       []string // dpop_signing_alg_values_supported

	Extra map[string]json.RawMessage // members without a field, by name; nil if there are none
}

// members returns the members that have a field, in the order of MarshalJSON.
func (m *ResourceMetadata) members() []resourceMember {
	return []resourceMember{
		{"resource", &m.Resource, m.Resource != ""},
		{"authorization_servers", &m.AuthorizationServers, m.AuthorizationServers != nil},
		{"scopes_supported", &m.ScopesSupported, m.ScopesSupported != nil},
		{"bearer_methods_supported", &m.BearerMethods, m.BearerMethods != nil},
		{"resource_name", &m.Name, m.Name != ""},
		{"resource_documentation", &m.Documentation, m.Documentation != ""},
		{"resource_policy_uri", &m.Policy, m.Policy != ""},
		{"resource_tos_uri", &m.Terms, m.Terms != ""},
		{"dpop_bound_access_tokens_required", &m.DPoPRequired, m.DPoPRequired},
		{"dpop_signing_alg_values_supported", &m.DPoPAlgorithms, m.DPoPAlgorithms != nil},
	}
}

type resourceMember struct {
	name  string
	field any // a pointer
	set   bool
}

// MarshalJSON returns the document. It omits nil lists, but not empty ones, and members of Extra
// that have a field.
func (m ResourceMetadata) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	extra := maps.Clone(m.Extra)
	write := func(name string, value any) error {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("auth: member %q: %w", name, err)
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		b.Write(key)
		b.WriteByte(':')
		b.Write(text)
		return err
	}
	for _, member := range m.members() {
		delete(extra, member.name)
		if !member.set {
			continue
		}
		if err := write(member.name, member.field); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if err := write(name, extra[name]); err != nil {
			return nil, err
		}
	}
	return slices.Concat([]byte("{"), b.Bytes(), []byte("}")), nil
}

// UnmarshalJSON reads a document. It compares names exactly. It fails if the type of a member is
// not that of its field.
func (m *ResourceMetadata) UnmarshalJSON(text []byte) error {
	*m = ResourceMetadata{}
	if err := json.Unmarshal(text, &m.Extra); err != nil {
		return err
	}
	for _, member := range m.members() {
		value, ok := m.Extra[member.name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, member.field); err != nil {
			return fmt.Errorf("auth: member %q: %w", member.name, err)
		}
		delete(m.Extra, member.name)
	}
	if len(m.Extra) == 0 {
		m.Extra = nil
	}
	return nil
}

// ServerMetadata describes an authorization server: the members of RFC 8414 and OpenID Connect
// Discovery that clients of MCP use. Other members are dropped.
type ServerMetadata struct {
	Issuer                 string   `json:"issuer"`
	AuthorizationEndpoint  string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint          string   `json:"token_endpoint,omitempty"`
	RegistrationEndpoint   string   `json:"registration_endpoint,omitempty"`
	RevocationEndpoint     string   `json:"revocation_endpoint,omitempty"`
	IntrospectionEndpoint  string   `json:"introspection_endpoint,omitempty"`
	JWKSURI                string   `json:"jwks_uri,omitempty"`
	ScopesSupported        []string `json:"scopes_supported,omitempty"`
	ResponseTypesSupported []string `json:"response_types_supported,omitempty"`
	GrantTypesSupported    []string `json:"grant_types_supported,omitempty"`
	// TokenEndpointAuthMethods are the methods of client authentication at the token endpoint. An
	// empty list means client_secret_basic (RFC 8414, section 2).
	TokenEndpointAuthMethods []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	CodeChallengeMethods     []string `json:"code_challenge_methods_supported,omitempty"`
	// IssParameter reports whether authorization responses have the parameter iss (RFC 9207, section
	// 3).
	IssParameter bool `json:"authorization_response_iss_parameter_supported,omitempty"`
	// ClientIDDocuments reports whether a client id may be the URL of a Client ID Metadata Document.
	ClientIDDocuments bool     `json:"client_id_metadata_document_supported,omitempty"`
	DPoPAlgorithms    []string `json:"dpop_signing_alg_values_supported,omitempty"`
}
