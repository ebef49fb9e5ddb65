package mcp_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
)

// maxLive is the number of bytes of memory that a decoded message may take for each byte of its
// text.
const maxLive = 24

// live returns the memory that a decoded value takes in bytes.
func live(t *testing.T, text []byte, definition string) (bytes int64, err error) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	v := mcp.New(definition)
	err = codec.Unmarshal(text, v)
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(v)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), err
}

// A list of many small objects takes a limited amount of memory, or is refused.
func TestMemoryOfHostileLists(t *testing.T) {
	const size = 512 << 10
	for definition, lists := range map[string][]string{
		"ListToolsResult": {"tools"}, "ListPromptsResult": {"prompts"}, "ListResourcesResult": {"resources"}, "ListResourceTemplatesResult": {"resourceTemplates"},
		"ListTasksResult": {"tasks"}, "CallToolResult": {"content"}, "GetPromptResult": {"messages"}, "ListRootsResult": {"roots"}, "ReadResourceResult": {"contents"},
		"CreateMessageRequestParams": {"messages", "tools"},
	} {
		for _, list := range lists {
			refused := 0
			for _, element := range []string{
				`{}`, `{"a":0}`, `{"abcdef":0}`, `{"title":""}`, `{"annotations":{"a":0}}`,
				`{"type":"text"}`, `{"icons":[{},{},{},{},{},{},{},{},{},{}]}`, `{"content":[]}`, `{"outputSchema":{}}`,
			} {
				text := []byte(`{"` + list + `":[` + strings.Repeat(element+",", size/(len(element)+1)) + element + `]}`)
				bytes, err := live(t, text, definition)
				if err != nil && !errors.Is(err, jsonfault.Memory) {
					t.Errorf("%s of %s: %v", list, element, err)
				}
				if perByte := float64(bytes) / float64(len(text)); perByte > maxLive {
					t.Errorf("%s of %s: %.1f bytes of memory for each byte of the text", list, element, perByte)
				}
				if errors.Is(err, jsonfault.Memory) {
					if refused++; codec.Code(err) != -32700 {
						t.Errorf("%s of %s: code %d", list, element, codec.Code(err))
					}
				}
			}
			if list == "tools" && refused == 0 {
				t.Errorf("%s: nothing is refused", list)
			}
		}
	}
}

// No useful list is refused: those with the shortest elements that are valid are not.
func TestMemoryOfShortLists(t *testing.T) {
	for definition, test := range map[string]struct{ list, element string }{
		"ListToolsResult":             {"tools", `{"name":"a","inputSchema":{"type":"object"}}`},
		"ListPromptsResult":           {"prompts", `{"name":"a"}`},
		"ListResourcesResult":         {"resources", `{"name":"a","uri":"a:"}`},
		"ListResourceTemplatesResult": {"resourceTemplates", `{"name":"a","uriTemplate":"a:"}`},
		"CallToolResult":              {"content", `{"type":"text","text":""}`},
		"GetPromptResult":             {"messages", `{"role":"user","content":{"type":"text","text":""}}`},
		"ListRootsResult":             {"roots", `{"uri":"file:"}`},
		"ReadResourceResult":          {"contents", `{"uri":"","text":""}`},
	} {
		text := []byte(fmt.Sprintf(`{%q:[%s%s]}`, test.list, strings.Repeat(test.element+",", 100_000), test.element))
		bytes, err := live(t, text, definition)
		if err != nil {
			t.Errorf("%s: %v", definition, err)
		}
		t.Logf("%s: %.1f bytes of memory for each byte of the text", definition, float64(bytes)/float64(len(text)))
	}
}
