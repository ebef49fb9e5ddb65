// A server of the official SDK with the skills of a folder, on standard input and output. With a second argument
// "sessions", it has sessions only.
import { McpServer } from '@modelcontextprotocol/server';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';

const [folder, sessions] = process.argv.slice(2);
const skills = await loadSkills(folder, { strict: true });
const make = () => {
  const server = new McpServer({ name: 'typescript', version: '2' });
  skills.attach(server);
  return server;
};
if (sessions) {
  await make().connect(new StdioServerTransport());
} else {
  serveStdio(make);
}
