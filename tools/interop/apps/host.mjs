// A client with MCP Apps in a browser. It calls the tool poll, shows its page in a frame of another origin, and writes what
// happens into the document. It fetches /finish when the user has voted, or something has failed.
import { AppBridge, PostMessageTransport, RESOURCE_MIME_TYPE, getToolUiResourceUri, isToolVisibilityAppOnly } from '@modelcontextprotocol/ext-apps/app-bridge';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [log, frame] = ['log', 'frame'].map((id) => document.getElementById(id));
const show = (...values) => log.append(values.map((v) => (typeof v === 'string' ? v : JSON.stringify(v))).join(' ') + '\n');
const next = (of, matches) => new Promise((resolve) => {
  addEventListener('message', function listener({ source, data }) {
    if (source !== of || !matches(data)) return;
    removeEventListener('message', listener);
    resolve(data);
  });
});
const info = { name: 'browser', version: '1' };

async function main() {
  const ui = { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } };
  const client = new Client(info, { capabilities: { extensions: ui } });
  await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href)));
  show('extensions', client.getServerCapabilities().extensions);

  const { tools } = await client.listTools();
  for (const tool of tools) show('tool', tool.name, getToolUiResourceUri(tool), isToolVisibilityAppOnly(tool) ? 'for the page' : 'for the model');
  const uri = getToolUiResourceUri(tools.find(({ name }) => name === 'poll'));
  const { contents: [page] } = await client.readResource({ uri });
  show('page', page.uri, page.mimeType);

  const sandboxed = next(frame.contentWindow, ({ method }) => method === 'ui/notifications/sandbox-proxy-ready');
  frame.src = new URLSearchParams(location.search).get('sandbox');
  await sandboxed;

  const styles = { variables: { '--color-background-info': '#ffc800' } };
  const bridge = new AppBridge(client, info, { serverTools: {} }, { hostContext: { theme: 'light', styles } });
  const initialized = new Promise((resolve) => bridge.addEventListener('initialized', resolve));
  bridge.addEventListener('sizechange', ({ height }) => (frame.style.height = `${height}px`));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  await bridge.sendSandboxResourceReady({ html: page.text, csp: page._meta?.ui?.csp });
  await initialized;
  show('initialized', bridge.getAppVersion());

  const args = { text: 'Where shall we eat?', options: ['Indoors', 'Outdoors'] };
  const drawn = next(frame.contentWindow, ({ text }) => text);
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(await client.callTool({ name: 'poll', arguments: args }));
  show('drawn', (await drawn).text);
  const voted = next(frame.contentWindow, ({ text }) => text);
  frame.contentWindow.postMessage({ click: 'Outdoors' }, '*');
  show('voted', (await voted).text);
}

try {
  await main();
} catch (err) {
  show('failed', err.stack);
}
await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
await fetch('/finish');
