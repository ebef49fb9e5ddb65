package plan

import (
	"go/token"
	"testing"
)

func TestGoNames(t *testing.T) {
	for name, want := range map[string]string{
		"callToolID":     "CallToolID",
		"HTTPServer":     "HTTPServer",
		"icon_uris":      "IconURIs",
		"a/b.c/page":     "Page",
		"1":              "X1",
		"$ref":           "Ref",
		"Größe":          "Größe",
		"länge":          "Länge",
		"ölStand":        "ÖlStand",
		"日本":             "X日本",
		"ßeta":           "Xßeta",
		"😀":              "U1F600",
		"a😀b":            "AU1F600B",
		"e\u0301t":       "EU301T", // a combining accent
		"price€":         "PriceU20AC",
		"٣":              "X٣",
		"<=":             "U3CU3D",
		"+":              "U2B",
		"":               "X",
		"\u200bhidden":   "U200BHidden",
		"ǆ":              "Ǆ",
		"имяПоля":        "ИмяПоля",
		"new\nline":      "NewLine",
		"x-mcp-header":   "XMcpHeader",
		"server/$schema": "Schema",
	} {
		got := goName(name)
		if got != want {
			t.Errorf("goName(%q) is %q, want %q", name, got, want)
		}
		if !token.IsIdentifier(got) || !token.IsExported(got) {
			t.Errorf("goName(%q) is %q, which is no exported identifier", name, got)
		}
	}
	for value, want := range map[string]string{"": "Empty", "日本": "日本", "<": "U3C", "<=": "U3CU3D", "-32000": "Minus32000", "-": "U2D", "ärger": "Ärger"} {
		if got := valueName(value); got != want || !token.IsIdentifier("T"+got) {
			t.Errorf("valueName(%q) is %q, want %q", value, got, want)
		}
	}
}
