// A client of the official SDK that reads all skills of a server. The arguments are the mode of negotiation and the
// command that starts the server. It prints a line for each skill, and "done" at the end.
import { Client } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'typescript', version: '2' }, { versionNegotiation: { mode } });
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }));
const skills = new SkillsClient(client);
for (const skill of (await skills.list()).skills) {
  const same = JSON.stringify((await skills.get(skill.uri)).skill) === JSON.stringify(skill);
  const { frontmatter } = await skills.read(skill);
  let verified = 0;
  for (const file of skill.resources) {
    verified += (await skills.read(skill, file.uri)).verified;
  }
  const { resources } = await skills.readDirectory(skill.uri.replace('/SKILL.md', ''));
  console.log(skill.uri, same, verified, resources.length, JSON.stringify(frontmatter));
}
console.log('done');
await client.close();
