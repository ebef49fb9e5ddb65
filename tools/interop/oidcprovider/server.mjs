// An authorization server: oidc-provider with its pages for development, where any login and password is right. It issues
// JSON Web Tokens for servers on the loopback address, with the scopes mcp and write, and registers clients. The clients
// machine and public are registered beforehand. It prints its issuer.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import Provider, { errors } from 'oidc-provider';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const http = createServer();
await new Promise((resolve) => http.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${http.address().port}`;
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256' }] },
  cookies: { keys: ['a key for tests'] },
  clients: [{
    client_id: 'machine', client_secret: 'machine-secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [],
  }, {
    client_id: 'public', application_type: 'native', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1:9/callback'],
  }],
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
  scopes: ['openid', 'offline_access', 'mcp', 'write'],
  pkce: { required: () => true },
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    introspection: { enabled: true },
    clientCredentials: { enabled: true },
    dPoP: { enabled: true, nonceSecret: Buffer.alloc(32, 1), requireNonce: () => false },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo(ctx, resource) {
        if (!resource.startsWith('http://127.0.0.1:')) throw new errors.InvalidTarget();
        return { scope: 'mcp write', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300, jwt: { sign: { alg: 'ES256' } } };
      },
    },
  },
});
for (const event of ['server_error', 'authorization.error', 'grant.error', 'registration_create.error']) {
  provider.on(event, (ctx, error) => console.error(event, error));
}
http.on('request', provider.callback());
console.log(issuer);
