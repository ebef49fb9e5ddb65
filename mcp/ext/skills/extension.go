package skills

// ExtensionID identifies the extension in the member extensions of capabilities.
const ExtensionID = "io.modelcontextprotocol/skills"

// Dynamic is the value of [Skill.Resources] for a skill whose files change from read to read.
const Dynamic = "dynamic"
