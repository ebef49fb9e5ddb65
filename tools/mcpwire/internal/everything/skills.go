package everything

import (
	"embed"
	"io/fs"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/skills"
)

//go:embed skills
var skillFiles embed.FS

// addSkills adds a skill with a folder for its references.
func addSkills(s *server.Server) error {
	files, err := fs.Sub(skillFiles, "skills")
	if err != nil {
		return err
	}
	catalog, err := skills.Load(files, nil)
	if err != nil {
		return err
	}
	return skills.Add(s, catalog.Source())
}
