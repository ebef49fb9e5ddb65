// A client of version 2 of the official SDK, in revision 2026-07-28. Its arguments are the server's URL or the command
// that starts the server. It prints a line for each result, and "done" at the end.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const client = new Client({ name: 'typescript', version: '2' }, {
  capabilities: { elicitation: { form: {} } },
  versionNegotiation: { mode: { pin: '2026-07-28' } },
});
const answers = { 'What is your name?': { name: 'Ann' }, 'Which color?': { color: 'blue' } };
client.setRequestHandler('elicitation/create', async (request) => ({ action: 'accept', content: answers[request.params.message] }));

const [command, ...args] = process.argv.slice(2);
const transport = command.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
await client.connect(transport);
console.log('revision', client.getNegotiatedProtocolVersion(), client.getServerVersion().name);

const call = async (name, args) => (await client.callTool({ name, arguments: args })).content[0].text;
console.log('echo', await call('echo', { text: 'ä€𝄞\u2028' }));
console.log('ask', await call('ask', {}));

const changed = new Promise((resolve) => client.setNotificationHandler('notifications/tools/list_changed', resolve));
const subscription = await client.listen({ toolsListChanged: true });
await call('change', {});
await changed;
console.log('changed');
await subscription.close();
console.log('closed', await subscription.closed);
await client.close();
console.log('done');
