package authtext_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
)

// Proves AUTH-08.
func TestParseChallenges(t *testing.T) {
	bearer := func(params ...string) authtext.Challenge {
		c := authtext.Challenge{Scheme: "Bearer"}
		for i := 0; i < len(params); i += 2 {
			c.Params = append(c.Params, authtext.Param{Name: params[i], Value: params[i+1]})
		}
		return c
	}
	const url = "https://h/.well-known/oauth-protected-resource?a=b,c"
	for _, test := range []struct {
		name   string
		values []string
		want   []authtext.Challenge
	}{
		{"none", nil, nil},
		{"empty", []string{"", " , ,"}, nil},
		{"scheme only", []string{"Bearer"}, []authtext.Challenge{bearer()}},
		{"comma in quotes", []string{`Bearer error="invalid_token", resource_metadata="` + url + `", scope="a b"`},
			[]authtext.Challenge{bearer("error", "invalid_token", "resource_metadata", url, "scope", "a b")}},
		{"Basic first", []string{`Basic realm="a, Bearer", Bearer scope=a`},
			[]authtext.Challenge{{Scheme: "Basic", Params: []authtext.Param{{Name: "realm", Value: "a, Bearer"}}}, bearer("scope", "a")}},
		{"token68", []string{`Negotiate YII+/==, Bearer scope=a`, `NTLM`},
			[]authtext.Challenge{{Scheme: "Negotiate", Token68: "YII+/=="}, bearer("scope", "a"), {Scheme: "NTLM"}}},
		{"two lines", []string{`DPoP algs="ES256"`, `Bearer`},
			[]authtext.Challenge{{Scheme: "DPoP", Params: []authtext.Param{{Name: "algs", Value: "ES256"}}}, bearer()}},
		{"schemes without parameters", []string{"Negotiate,Bearer"}, []authtext.Challenge{{Scheme: "Negotiate"}, bearer()}},
		{"spaces around the equals sign", []string{`Bearer ERROR = "x" , scope	=	y`}, []authtext.Challenge{bearer("error", "x", "scope", "y")}},
		{"escapes", []string{`Bearer realm="a\"b\\c"`}, []authtext.Challenge{bearer("realm", `a"b\c`)}},
		{"duplicate", []string{`Bearer scope="a", Scope="b"`}, []authtext.Challenge{bearer("scope", "a")}},
		{"commas missing", []string{`Bearer error="x" scope="y"`}, []authtext.Challenge{bearer("error", "x", "scope", "y")}},
		{"unquoted URL", []string{`Bearer resource_metadata=https://h/a?b=c, scope=y`}, []authtext.Challenge{bearer("resource_metadata", "https://h/a?b=c", "scope", "y")}},
		{"unterminated quotes", []string{`Bearer error="x", scope="y, Basic`}, []authtext.Challenge{bearer("error", "x")}},
		{"parameter without a scheme", []string{`Bearer a=b`, `error="x"`}, []authtext.Challenge{bearer("a", "b")}},
		{"malformed elements", []string{`"x, y", Bearer error="x", ?, a:b, realm=z, scope=a"b, x=y`}, []authtext.Challenge{bearer("error", "x", "realm", "z")}},
		{"many challenges", []string{strings.Repeat("Bearer, ", 100)}, slices.Repeat([]authtext.Challenge{bearer()}, 16)},
		{"long", []string{strings.Repeat(" ", 16<<10), "Bearer"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := authtext.ParseChallenges(test.values)
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("challenges (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChallengeScopes(t *testing.T) {
	for text, want := range map[string][]string{
		"":                       nil,
		"a":                      {"a"},
		"  mcp:read  b mcp:read": {"mcp:read", "b"},
		"a\tb c":                 {"c"},
		"ä a\"b":                 nil,
	} {
		got := authtext.Challenge{Params: []authtext.Param{{Name: "scope", Value: text}}}.Scopes()
		if !slices.Equal(got, want) {
			t.Errorf("scopes of %q: %q, want %q", text, got, want)
		}
	}
}

func TestChallengeString(t *testing.T) {
	for want, c := range map[string]authtext.Challenge{
		"":                  {Scheme: "Bearer\r\nX"},
		"Bearer":            {Scheme: "Bearer", Params: []authtext.Param{{Name: "a b", Value: "x"}}},
		"Negotiate abc=":    {Scheme: "Negotiate", Token68: "abc="},
		"NTLM":              {Scheme: "NTLM", Token68: "a,b"},
		`Bearer a="x\"\\y"`: {Scheme: "Bearer", Params: []authtext.Param{{Name: "a", Value: "x\"\\\r\nyä"}}},
		`Bearer error="insufficient_scope", scope="a b"`: {Scheme: "Bearer", Params: []authtext.Param{
			{Name: "error", Value: "insufficient_scope"}, {Name: "scope", Value: "a b"}}},
	} {
		if got := c.String(); got != want {
			t.Errorf("%#v is written as %q, want %q", c, got, want)
		}
	}
}

func FuzzParseChallenges(f *testing.F) {
	f.Add(`Basic realm="a, Bearer", Bearer scope=a, error="x\"y"`, "Negotiate YII==")
	f.Add(`Bearer a=b c="d" ?, "x,y", z=`, `Bearer a= "`)
	f.Fuzz(func(t *testing.T, first, second string) {
		challenges := authtext.ParseChallenges([]string{first, second})
		if len(challenges) > 16 {
			t.Fatalf("%d challenges", len(challenges))
		}
		for _, c := range challenges {
			text := c.String()
			again := authtext.ParseChallenges([]string{text})
			if len(again) != 1 || again[0].String() != text {
				t.Fatalf("%#v is written as %q and read as %#v", c, text, again)
			}
			for i, p := range again[0].Params {
				if p.Name != c.Params[i].Name || len(p.Value) > len(c.Params[i].Value) {
					t.Fatalf("parameter %#v is read as %#v", c.Params[i], p)
				}
			}
		}
	})
}
