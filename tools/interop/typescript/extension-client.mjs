// A client of version 2 of the official SDK that follows tasks of the Tasks extension with @modelcontextprotocol/ext-tasks.
// Its argument is the server's URL or the command that starts the server. It prints a line for each result, and "done" at
// the end.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';

const show = (...values) => console.log(...values.map((v) => (typeof v === 'string' ? v : JSON.stringify(v))));
const clientInfo = { name: 'typescript', version: '2' };
const capabilities = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
const protocolVersion = '2026-07-28';

const [command] = process.argv.slice(2);
const transport = command.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, env: process.env, stderr: 'inherit' });
const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: { pin: protocolVersion } } });
await client.connect(transport);

// The SDK accepts no result that is a task, so requests about tasks go to the transport.
const pending = new Map(); // resolve functions by request id
const receive = transport.onmessage;
transport.onmessage = (message, extra) => {
  const resolve = pending.get(message.id);
  if (!resolve) return receive(message, extra);
  pending.delete(message.id);
  resolve(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
};
let last = 0;
const updates = []; // keys of the responses in each tasks/update
const rawDispatch = (request) => new Promise((resolve, reject) => {
  const id = `task-${++last}`;
  if (request.method === 'tasks/update') updates.push(Object.keys(request.params.inputResponses).length);
  pending.set(id, resolve);
  transport.send({ jsonrpc: '2.0', id, ...request }).catch(reject);
});

const session = createTaskSessionFromClient(client, {
  endpointId: 'server', rawDispatch, v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: capabilities },
  onInputRequest: ({ kind, params }) => {
    show('asked', kind, params.message);
    return { action: 'accept', content: { colour: 'blue' } };
  },
  onError: (error) => show('error', error.message),
});

// settle waits for the end of a call.
const settle = async (name, execution) => {
  const { outcome } = await execution.settle();
  const { status, error, result } = outcome;
  show(name, execution.kind, status, ...(error ? [error.code, error.message, error.data] : []), ...(result ? [result.content[0].text, result.isError ?? false] : []));
};
const run = async (name) => {
  const execution = await session.callTool(name, {});
  await settle(name, execution);
  return execution;
};

await run('quick');
const job = (await run('job')).handle.taskId;
show('updates', updates);
const state = await session.task(job).snapshot();
show('job', state.status, state.retentionMs, state.suggestedPollIntervalMs);
await run('fail-inside');
await run('fail');

const forever = await session.callTool('forever', {});
await forever.cancel();
await settle('forever', forever);
await session.cancelTask(forever.handle.taskId); // accepted though the task is terminal
try {
  await session.task('unknown').snapshot();
} catch (error) {
  show('unknown', error.code);
}

// The id of a task is enough to follow it.
const begun = await session.callTool('job', {});
await begun.handoff(() => {});
const task = session.task(begun.handle.taskId);
let view = await task.snapshot();
while (view.status === 'working') {
  await new Promise((resolve) => setTimeout(resolve, 20));
  view = await task.snapshot();
}
const [[key, request]] = Object.entries(view.raw.inputRequests);
show('attached', view.status, request.params.message);
await task.update({ [key]: { action: 'accept', content: { colour: 'red' } } });
const { status, result } = await task.result();
show('attached', status, result.content[0].text);
await session.close();
await client.close();
show('done');
process.exit();
