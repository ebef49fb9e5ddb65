import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

// connect serves over standard input and output. With an argument, a port or 0 for any, it serves over HTTP and prints
// where: one transport for one client, as small servers have it. That knows nothing of the client's session when the
// server was started again, and answers with 400 then.
export async function connect(server) {
  const [port] = process.argv.slice(2);
  if (port === undefined) return server.connect(new StdioServerTransport());
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
  await server.connect(transport);
  const http = createServer((request, response) => transport.handleRequest(request, response));
  http.listen(Number(port), '127.0.0.1', () => console.log(http.address().port));
}
