// A client of the official SDK that uses a fleet. Its argument is the URL. It prints a line for each result. After "where" and
// after the first progress of the call of wait, it waits for a line on standard input.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const client = new Client({ name: 'typescript', version: '1' }, { capabilities: {} });
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]), {
  reconnectionOptions: { initialReconnectionDelay: 20, maxReconnectionDelay: 200, reconnectionDelayGrowFactor: 1.2, maxRetries: 100 },
});
await client.connect(transport);

const call = async (name, onprogress) => (await client.callTool({ name, arguments: {} }, CallToolResultSchema, { onprogress })).content[0].text;

console.log('tools', (await client.listTools()).tools.map((tool) => tool.name).sort().join(' '));
const counts = [];
const counted = await call('count', (p) => counts.push(p.progress));
console.log('count', counted, counts.join(' '));

const steps = [];
const stream = client.experimental.tasks.callToolStream({ name: 'job', arguments: {} }, CallToolResultSchema, {
  task: { ttl: 60000 }, onprogress: (p) => steps.push(p.progress),
});
for await (const message of stream) {
  if (message.type === 'result') console.log('job', message.result.content[0].text, steps.join(' '));
  if (message.type === 'error') console.log('job failed', message.error.message);
}

console.log('where', await call('where'));
await lines.next();
let waiting;
const first = new Promise((resolve) => (waiting = resolve));
const waited = call('wait', (p) => {
  console.log('wait progress', p.progress);
  waiting();
});
await first;
await lines.next();
for (let i = 0; i < 3; i++) await call('where');
console.log('also', await call('where'));
console.log('waited', await waited);
await changed;
console.log('changed');
await transport.terminateSession();
await client.close();
console.log('done');
process.exit();
