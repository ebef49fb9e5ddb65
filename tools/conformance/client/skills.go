package main

import (
	"context"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/client/skills"
)

// useSkills lists the skills of a server. Unless the scenario ends there, it loads the skill of the
// scenarios, and reads a file that this skill mentions.
func useSkills(ctx context.Context, c *client.Client, scenario string) error {
	s, err := skills.New(c, skills.Options{
		Label:   "suite",
		Approve: func(context.Context, *skills.Entry) (bool, error) { return true, nil },
	})
	if err != nil {
		return err
	}
	for e, err := range s.List(ctx) {
		if err != nil {
			return err
		}
		if scenario == "sep-2640-client-no-prefetch" || e.URI != "skill://pdf-processing/SKILL.md" {
			continue
		}
		skill, err := s.Load(ctx, e)
		if err != nil {
			return err
		}
		if _, err := skill.Read(ctx, "references/FORMS.md"); err != nil {
			return err
		}
	}
	return nil
}
