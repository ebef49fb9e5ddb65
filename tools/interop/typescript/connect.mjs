// connect connects a server with its one client, over what the first argument of the program says: standard input and
// output, "http", or "sse", the older transport. Over HTTP it writes its URL to standard output, and ends when
// standard input does.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js';

export const connect = async (server) => {
  switch (process.argv[2]) {
    case 'http': {
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID, eventStore: new InMemoryEventStore(), retryInterval: 100,
      });
      await server.connect(transport);
      return listen((req, res) => transport.handleRequest(req, res));
    }
    case 'sse': {
      let transport;
      return listen(async (req, res) => {
        if (req.url.startsWith('/messages')) return transport.handlePostMessage(req, res);
        if (req.method !== 'GET') return res.writeHead(405).end();
        transport = new SSEServerTransport('/messages', res);
        await server.connect(transport);
      });
    }
    default:
      return server.connect(new StdioServerTransport());
  }
};

const listen = (handle) => {
  const http = createServer(handle);
  http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
  process.stdin.on('end', () => process.exit(0)).resume();
};
