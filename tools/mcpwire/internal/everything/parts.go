package everything

import (
	"context"
	"strconv"

	"github.com/mcpwire/mcpwire/runtime/experimental/partial"
	"github.com/mcpwire/mcpwire/runtime/server"
)

const letters = "abcdefghijklmnopqrstuvwxyz"

// addParts adds a tool whose result arrives in parts.
func addParts(s *server.Server) {
	server.AddTool(s, "alphabet", "Returns the alphabet in parts. The client requests each part with the token of the previous one.", func(ctx context.Context, _ *server.Call, in struct {
		Letters int `json:"letters,omitempty" jsonschema:"how many letters a part has, 9 if it is left out"`
	}) (string, error) {
		part, ok := partial.PartFrom(ctx)
		if !ok {
			return letters, nil
		}
		if in.Letters <= 0 {
			in.Letters = 9
		}
		at := 0
		if state, resumed := part.State(); resumed {
			var err error
			if at, err = strconv.Atoi(string(state)); err != nil {
				return "", err // the token belongs to another server with the same key
			}
		}
		if in.Letters >= len(letters)-at {
			return letters[at:], nil
		}
		part.More([]byte(strconv.Itoa(at + in.Letters)))
		return letters[at : at+in.Letters], nil
	})
}
