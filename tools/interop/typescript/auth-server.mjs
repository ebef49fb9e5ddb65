// A protected server of the official SDK with the tools read and write. The argument is the port, or 0 for any port, which
// is printed. Tokens are those of the authorization server whose issuer is in the environment. The tool write needs a
// scope of its own.
import { createServer } from 'node:http';
import express from 'express';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { getOAuthProtectedResourceMetadataUrl, mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const app = express();
const http = createServer(app);
await new Promise((resolve) => http.listen(Number(process.argv[2]), '127.0.0.1', resolve));
const resource = new URL(`http://127.0.0.1:${http.address().port}/mcp`);
const oauthMetadata = await (await fetch(`${process.env.ISSUER}/.well-known/openid-configuration`)).json();
const keys = createRemoteJWKSet(new URL(oauthMetadata.jwks_uri));
const verifier = {
  async verifyAccessToken(token) {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer: process.env.ISSUER, audience: resource.href });
      return { token, clientId: payload.client_id, scopes: payload.scope.split(' '), expiresAt: payload.exp, extra: { sub: payload.sub } };
    } catch (error) {
      throw new InvalidTokenError(error.message);
    }
  },
};
const protect = (requiredScopes) => requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource) });
const all = protect(['mcp']);
const write = protect(['mcp', 'write']);

process.env.MCP_DANGEROUSLY_ALLOW_INSECURE_ISSUER_URL = 'true'; // http
app.use(mcpAuthMetadataRouter({ oauthMetadata, resourceServerUrl: resource, scopesSupported: ['mcp', 'write'] }));
app.use(express.json());
app.all('/mcp', (req, res, next) => (req.body?.params?.name === 'write' ? write : all)(req, res, next), async (req, res) => {
  const server = new McpServer({ name: 'typescript', version: '1' });
  for (const name of ['read', 'write']) {
    server.registerTool(name, {}, ({ authInfo }) => ({ content: [{ type: 'text', text: `${name} as ${authInfo.extra.sub}` }] }));
  }
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(req, res, req.body);
});
console.log(http.address().port);
