import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

// connect serves over standard input and output. If the argument is a port, or 0 for any port, it serves over HTTP and
// prints the port. It has one transport for one client, like small servers. After a restart the transport does not know
// the client's session and responds with status 400.
export async function connect(server) {
  const [port] = process.argv.slice(2);
  if (port === undefined) return server.connect(new StdioServerTransport());
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() });
  await server.connect(transport);
  const http = createServer((request, response) => transport.handleRequest(request, response));
  http.listen(Number(port), '127.0.0.1', () => console.log(http.address().port));
}
