// Clients of versions 1 and 2 of the official SDK that use the features of features_test.go. The argument is a JSON list
// of clients to run at once. Each has the version, the mode of version 2, and the url or the command and the env of a
// server. steps has the time in milliseconds after which each step fails. For each client, a line with the outcome as
// JSON is printed: the index, and the error of the connection, or the revision and what each step has returned.
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as HTTP1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types1 from '@modelcontextprotocol/sdk/types.js';
import { Client as Client2, StreamableHTTPClientTransport as HTTP2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';

const answers = { 'What is your name?': { name: 'Ann' }, 'Which color?': { color: 'blue' } };
const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };

// connect returns a connected client.
async function connect({ version, mode, url, command, env }) {
  const [Client, HTTP, Stdio] = version === 1 ? [Client1, HTTP1, Stdio1] : [Client2, HTTP2, Stdio2];
  const client = new Client({ name: 'typescript', version: `${version}` }, { capabilities, versionNegotiation: mode && { mode } });
  const handle = (set, method, schema, handler) => client[set](version === 1 ? types1[schema] : method, handler);
  handle('setRequestHandler', 'elicitation/create', 'ElicitRequestSchema', ({ params }) => ({ action: 'accept', content: answers[params.message] }));
  handle('setRequestHandler', 'sampling/createMessage', 'CreateMessageRequestSchema', () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'forty-two' } }));
  handle('setRequestHandler', 'roots/list', 'ListRootsRequestSchema', () => ({ roots: [{ uri: 'file:///work' }] }));
  const seen = {};
  handle('setNotificationHandler', 'notifications/tools/list_changed', 'ToolListChangedNotificationSchema', () => { seen.tools?.('true'); });
  handle('setNotificationHandler', 'notifications/resources/updated', 'ResourceUpdatedNotificationSchema', ({ params }) => { seen.resources?.(params.uri); });
  const transport = url ? new HTTP(new URL(url)) : new Stdio({ command, env: { ...process.env, ...env }, stderr: 'inherit' });
  try {
    await client.connect(transport);
  } catch (error) {
    await client.close();
    throw error;
  }
  return { client, version, transport, seen };
}

// until calls a tool until a notification has arrived.
async function until(connected, what, call, signal) {
  const arrived = new Promise((resolve) => { connected.seen[what] = resolve; });
  for (;;) {
    await call();
    const pause = new Promise((resolve) => setTimeout(resolve, 20));
    const value = await Promise.race([arrived, pause]);
    if (value) return value;
    signal.throwIfAborted();
  }
}

function steps(connected) {
  const { client, version } = connected;
  const call = async (signal, name, args = {}, more = {}) => {
    const options = { signal, ...more };
    const result = await (version === 1 ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options));
    if (result.isError) throw new Error(result.content[0].text);
    return result.content[0].text;
  };
  const modern = version === 2 && client.getNegotiatedProtocolVersion() === '2026-07-28';
  return {
    calls: (signal) => call(signal, 'echo', { text: 'ä€𝄞\u2028' }),
    progress: (signal) => call(signal, 'work', {}, { onprogress: () => call(signal, 'proceed') }),
    'rounds of input': (signal) => call(signal, 'ask'),
    'several input requests at once': (signal) => call(signal, 'survey'),
    'changes of resources': async (signal) => {
      if (modern) await client.listen({ toolsListChanged: true, resourceSubscriptions: ['note:1'] });
      else await client.subscribeResource({ uri: 'note:1' }, { signal });
      return until(connected, 'resources', () => call(signal, 'touch'), signal);
    },
    'changes of lists': (signal) => until(connected, 'tools', () => call(signal, 'change'), signal),
    cancellation: async (signal) => {
      const control = new AbortController();
      try {
        await call(AbortSignal.any([signal, control.signal]), 'hang', {}, { onprogress: () => control.abort() });
        throw new Error('hang returned');
      } catch (error) {
        if (!control.signal.aborted) throw error;
      }
      return call(signal, 'ended');
    },
  };
}

async function run(spec, index) {
  const outcome = { index };
  try {
    const connected = await connect(spec);
    const { client, version, transport } = connected;
    outcome.revision = version === 2 ? client.getNegotiatedProtocolVersion() : transport.protocolVersion ?? '2025-11-25';
    outcome.steps = {};
    for (const [name, step] of Object.entries(steps(connected))) {
      try {
        outcome.steps[name] = { text: await step(AbortSignal.timeout(spec.steps[name])) };
      } catch (error) {
        outcome.steps[name] = { error: error.message };
      }
    }
    await transport.terminateSession?.();
    await client.close();
  } catch (error) {
    outcome.error = error.message;
  }
  console.log(JSON.stringify(outcome));
}

await Promise.all(JSON.parse(process.argv[2]).map(run));
process.exit();
