// A client of the official SDK that logs in. The arguments are the server's URL, the URL of a browser that logs in at
// the URL of its parameter and responds with the redirect, the redirect URI, the version of the SDK, and the revision
// if it has no sessions. If CLIENT_ID is set, the client is not registered. It calls the tools read and write and prints their results.
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as HTTP1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { UnauthorizedError as Unauthorized1 } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client as Client2, StreamableHTTPClientTransport as HTTP2, UnauthorizedError as Unauthorized2 } from '@modelcontextprotocol/client';

const [server, browser, redirectUrl, version, pin] = process.argv.slice(2);
const [Client, HTTP, Unauthorized] = version === '1' ? [Client1, HTTP1, Unauthorized1] : [Client2, HTTP2, Unauthorized2];

let information = process.env.CLIENT_ID && { client_id: process.env.CLIENT_ID };
let tokens, verifier, redirect, discovered;
const authProvider = {
  redirectUrl,
  clientMetadata: { client_name: 'typescript', application_type: 'native', token_endpoint_auth_method: 'none', redirect_uris: [redirectUrl] },
  clientInformation: () => information,
  saveClientInformation: (value) => { information = value; },
  tokens: () => tokens,
  saveTokens: (value) => { tokens = value; },
  codeVerifier: () => verifier,
  saveCodeVerifier: (value) => { verifier = value; },
  discoveryState: () => discovered,
  saveDiscoveryState: (value) => { discovered = value; },
  async redirectToAuthorization(url) {
    const response = await fetch(`${browser}?url=${encodeURIComponent(url)}`);
    if (!response.ok) throw new Error(await response.text());
    redirect = new URL(await response.text());
  },
};

let client, transport;
const connect = async () => {
  transport = new HTTP(new URL(server), { authProvider });
  client = new Client({ name: 'typescript', version }, { versionNegotiation: pin && { mode: { pin } } });
  await client.connect(transport);
};

// authorized runs a step, and again after the user has logged in.
const authorized = async (step) => {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof Unauthorized)) throw error;
    await transport.finishAuth(version === '1' ? redirect.searchParams.get('code') : redirect.searchParams);
    return step();
  }
};

await authorized(connect);
for (const name of ['read', 'write']) {
  const result = await authorized(() => client.callTool({ name, arguments: {} }));
  console.log(name, result.content[0].text);
}
if (transport.sessionId) await transport.terminateSession();
await client.close();
