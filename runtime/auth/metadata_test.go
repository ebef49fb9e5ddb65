package auth_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

func TestResourceMetadataJSON(t *testing.T) {
	full := auth.ResourceMetadata{
		Resource:             "https://h/mcp",
		AuthorizationServers: []string{"https://as"},
		ScopesSupported:      []string{},
		BearerMethods:        []string{"header"},
		Name:                 "Name",
		Documentation:        "https://h/doc",
		Policy:               "https://h/policy",
		Terms:                "https://h/terms",
		DPoPRequired:         true,
		DPoPAlgorithms:       []string{"ES256"},
		Extra:                map[string]json.RawMessage{"x": json.RawMessage(`{"a":1}`), "RESOURCE": json.RawMessage(`"other"`)},
	}
	const text = `{"resource":"https://h/mcp","authorization_servers":["https://as"],"scopes_supported":[],"bearer_methods_supported":["header"],` +
		`"resource_name":"Name","resource_documentation":"https://h/doc","resource_policy_uri":"https://h/policy","resource_tos_uri":"https://h/terms",` +
		`"dpop_bound_access_tokens_required":true,"dpop_signing_alg_values_supported":["ES256"],"RESOURCE":"other","x":{"a":1}}`
	for want, m := range map[string]auth.ResourceMetadata{`{}`: {}, text: full} {
		got, err := json.Marshal(m)
		if err != nil || string(got) != want {
			t.Fatalf("written: %s, %v; want %s", got, err, want)
		}
		var again auth.ResourceMetadata
		if err := json.Unmarshal(got, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	}
	var m auth.ResourceMetadata
	if err := json.Unmarshal([]byte(`{"resource":["https://h/mcp"]}`), &m); err == nil {
		t.Error("a list was read as the resource")
	}
	m = auth.ResourceMetadata{Resource: "a", Extra: map[string]json.RawMessage{"resource": json.RawMessage(`"b"`)}}
	if got, err := json.Marshal(m); string(got) != `{"resource":"a"}` {
		t.Errorf("written: %s, %v", got, err)
	}
}
