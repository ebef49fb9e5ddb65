// A server of version 2 of the official SDK with the features of features_test.go, which describes them. With an
// argument "stdio", it serves all revisions over standard input and output, and with "stdio reject" only those without
// sessions. Otherwise it serves over HTTP, prints the port, and has a path for each way to serve:
//
//   /stateless  createMcpHandler, which gives clients of revisions with sessions none
//   /reject     createMcpHandler for revisions without sessions only
//   /sessions   sessions only
//   /both       sessions, and createMcpHandler for clients of other revisions
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  Server, WebStandardStreamableHTTPServerTransport, acceptedContent, createMcpHandler, inputRequired, inputResponse, isLegacyRequest,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const text = (text) => ({ content: [{ type: 'text', text }] });
const elicit = (message, field) => inputRequired.elicit({
  message, requestedSchema: { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] },
});

// Clients run at the same time, so calls that wait for others name them with a key.
const gates = new Map();
const gate = (name, { key }) => {
  const id = `${name} ${key}`;
  if (!gates.has(id)) {
    const gate = {};
    gate.promise = new Promise((resolve) => { gate.resolve = resolve; });
    gates.set(id, gate);
  }
  return gates.get(id);
};

const report = ({ mcpReq: request }) => request.notify({
  method: 'notifications/progress', params: { progressToken: request._meta.progressToken, progress: 1, total: 2 },
});

const tools = {
  echo: (args) => text(args.text),
  work: async (args, context) => {
    await report(context);
    await gate('proceed', args).promise;
    return text('done');
  },
  proceed: (args) => {
    gate('proceed', args).resolve();
    return text('');
  },
  ask: (_, { mcpReq: { inputResponses, requestState } }) => {
    const color = acceptedContent(inputResponses, 'color');
    if (color) return text(`${requestState()} likes ${color.color}`);
    const name = acceptedContent(inputResponses, 'name');
    if (name) return inputRequired({ inputRequests: { color: elicit('Which color?', 'color') }, requestState: name.name });
    return inputRequired({ inputRequests: { name: elicit('What is your name?', 'name') } });
  },
  survey: (_, { mcpReq: { inputResponses } }) => {
    const name = acceptedContent(inputResponses, 'name');
    const sample = inputResponse(inputResponses, 'sample');
    const roots = inputResponse(inputResponses, 'roots');
    if (name && sample.kind === 'sampling' && roots.kind === 'roots') {
      return text(`${name.name} ${sample.result.content.text} ${roots.roots[0].uri}`);
    }
    return inputRequired({ inputRequests: {
      name: elicit('What is your name?', 'name'),
      sample: inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'How much?' } }], maxTokens: 10 }),
      roots: inputRequired.listRoots(),
    } });
  },
  hang: (args, context) => new Promise((resolve) => {
    context.mcpReq.signal.addEventListener('abort', () => {
      gate('ended', args).resolve();
      resolve(text('too late'));
    });
    report(context);
  }),
  ended: async (args) => {
    await gate('ended', args).promise;
    return text('cancelled');
  },
};

// build returns a function that makes a server. The server reports changes through notify, if it is given.
const build = (notify) => () => {
  const server = new Server({ name: 'typescript', version: '2' }, {
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
  });
  server.setRequestHandler('tools/list', () => ({
    tools: ['changing', 'change', 'touch', ...Object.keys(tools)].map((name) => ({ name, inputSchema: { type: 'object' } })),
  }));
  server.setRequestHandler('resources/list', () => ({ resources: [{ uri: 'note:1', name: 'note' }] }));
  server.setRequestHandler('resources/subscribe', () => ({}));
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: args } }, context) => {
    switch (name) {
      case 'change':
        if (notify) notify().toolsChanged();
        else await server.sendToolListChanged();
        return text('');
      case 'touch':
        if (notify) notify().resourceUpdated('note:1');
        else await server.sendResourceUpdated({ uri: 'note:1' });
        return text('');
    }
    return tools[name](args, context);
  });
  return server;
};

const serveHTTP = () => {
  const create = (options) => {
    const created = createMcpHandler(build(() => created.notify), options);
    return created.fetch;
  };
  const transports = new Map();
  const sessions = async (request) => {
    let transport = transports.get(request.headers.get('mcp-session-id'));
    if (!transport) {
      transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID, onsessioninitialized: (id) => { transports.set(id, transport); },
      });
      await build()().connect(transport);
    }
    return transport.handleRequest(request);
  };
  const reject = create({ legacy: 'reject' });
  const both = async (request) => ((await isLegacyRequest(request)) ? sessions : reject)(request);
  const paths = { '/stateless': create(), '/reject': reject, '/sessions': sessions, '/both': both };
  const fetch = (request) => paths[new URL(request.url).pathname](request);
  const http = createServer(toNodeHandler({ fetch }));
  http.listen(0, '127.0.0.1', () => console.log(http.address().port));
};

const [transport, legacy] = process.argv.slice(2);
if (transport === 'stdio') serveStdio(build(), { legacy });
else serveHTTP();
