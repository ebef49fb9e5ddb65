package tasks

// ExtensionID identifies the extension in the member extensions of capabilities.
const ExtensionID = "io.modelcontextprotocol/tasks"

// ResultTask is the resultType of [CreateTaskResult], and of no other result.
const ResultTask = "task"
