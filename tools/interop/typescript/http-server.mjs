// A server on the official SDK, over HTTP: one transport for one client, as small servers have it. It knows nothing of
// the client's session when it was started again, and answers with 400 then. The port is an argument, 0 for any; where
// it listens is printed.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const server = new Server({ name: 'typescript', version: '1' }, { capabilities: { tools: {} } });
server.setRequestHandler(CallToolRequestSchema, (request) => ({
  content: [{ type: 'text', text: JSON.stringify(request.params.arguments) }],
}));
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
await server.connect(transport);

const http = createServer((request, response) => transport.handleRequest(request, response));
http.listen(Number(process.argv[2]), '127.0.0.1', () => console.log(http.address().port));
