// A server of the official SDK.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { CallToolRequestSchema, CreateMessageResultSchema, ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';

const server = new Server(
  { name: 'typescript', version: '1' },
  { capabilities: { tools: {}, logging: {} }, instructions: 'Be nice.' },
);

const text = (text) => ({ content: [{ type: 'text', text }] });

const tools = {
  echo: (args) => text(JSON.stringify(args)),
  fail: () => { throw new McpError(ErrorCode.InvalidParams, 'no luck', { a: 1 }); },
  // progress reports 1, 2 and 3 of 3.
  progress: async (_, extra) => {
    for (let progress = 1; progress <= 3; progress++) {
      await extra.sendNotification({
        method: 'notifications/progress',
        params: { progressToken: extra._meta.progressToken, progress, total: 3, message: `step ${progress}` },
      });
    }
    return text('done');
  },
  // hang waits until it is cancelled, and logs that it was.
  hang: (_, extra) => new Promise((resolve) => {
    extra.signal.addEventListener('abort', () => {
      server.sendLoggingMessage({ level: 'info', data: 'cancelled: ' + extra.signal.reason });
      resolve(text('too late'));
    });
    server.sendLoggingMessage({ level: 'info', data: 'hanging' });
  }),
  // ask samples the client's model, with progress, and returns the response.
  ask: async (_, extra) => {
    const progress = [];
    const result = await extra.sendRequest(
      { method: 'sampling/createMessage', params: { messages: [{ role: 'user', content: { type: 'text', text: 'how much?' } }], maxTokens: 10 } },
      CreateMessageResultSchema,
      { onprogress: (p) => progress.push(p.progress) },
    );
    return text(`${result.content.text} after ${progress}`);
  },
  // give up sends a sampling request and cancels it.
  'give up': async (_, extra) => {
    const control = new AbortController();
    setTimeout(() => control.abort('no patience'), 100);
    try {
      await extra.sendRequest(
        { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } },
        CreateMessageResultSchema,
        { signal: control.signal },
      );
    } catch (e) {
      return text('gave up');
    }
    return text('was answered');
  },
  ping: async () => { await server.ping(); return text('pong'); },
};

server.setRequestHandler(CallToolRequestSchema, (request, extra) => tools[request.params.name](request.params.arguments, extra));

await connect(server);
