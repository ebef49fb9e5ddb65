// A client of the official SDK. Its arguments are the server's URL or the command that starts the server. It prints a
// line for each result, and "done" at the end.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const show = (...values) => console.log(...values.map((v) => (typeof v === 'string' ? v : JSON.stringify(v))));

const client = new Client({ name: 'typescript', version: '1' }, { capabilities: { sampling: {} } });

const logged = [];
let wake = () => {};
client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => { logged.push(n.params.data); wake(); });
const nextLog = async () => {
  while (logged.length === 0) await new Promise((resolve) => { wake = resolve; });
  return logged.shift();
};

client.setRequestHandler(CreateMessageRequestSchema, async (request, extra) => {
  if (request.params.maxTokens === 1) { // the server cancels this request after it has arrived
    const cancelled = new Promise((resolve) => extra.signal.addEventListener('abort', resolve));
    await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: extra._meta.progressToken, progress: 0.5 } });
    await cancelled;
    show('question cancelled', extra.signal.reason);
  }
  for (let progress = 1; progress <= 3; progress++) {
    await extra.sendNotification({ method: 'notifications/progress', params: { progressToken: extra._meta.progressToken, progress } });
  }
  return { role: 'assistant', model: 'm', content: { type: 'text', text: 'forty-two' } };
});

const [command, ...args] = process.argv.slice(2);
const transport = command.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
await client.connect(transport);

show('server', client.getServerVersion().name, client.getInstructions());
await client.ping();
show('pong');

const call = async (name, args, options) => {
  try {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    show(name, result.content[0].text);
  } catch (e) {
    show(name, 'error', e.code, e.data ?? null);
  }
};

await call('echo', { text: 'ä€𝄞\u2028', n: 1.5 });
await call('fail', {});
await call('panic', {});
await call('no such tool', {});
try {
  await client.listPrompts();
} catch (e) {
  show('prompts', e.message);
}

const progress = [];
await call('progress', {}, { onprogress: (p) => progress.push([p.progress, p.total, p.message]) });
show('progress', progress);

const control = new AbortController();
const hanging = call('hang', {}, { signal: control.signal });
show('log', await nextLog());
control.abort('no patience');
await hanging;
show('log', await nextLog());

await call('timeout', {}, { timeout: 100 });
show('log', await nextLog());

await call('ask', {});
await call('give up', {});

await Promise.all(Array.from({ length: 200 }, async (_, i) => {
  const result = await client.callTool({ name: 'echo', arguments: { i } });
  if (JSON.parse(result.content[0].text).i !== i) show('wrong answer', result);
}));

if (transport.terminateSession) await transport.terminateSession();
await client.close();
show('done');
