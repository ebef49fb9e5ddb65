// A client of the official SDK that calls tools as tasks, and runs sampling requests as tasks if the server asks for that.
// Its arguments are the server's URL or the command that starts the server. It prints a line for each result, and "done" at
// the end.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { CallToolResultSchema, CreateMessageRequestSchema, CreateTaskResultSchema, ElicitRequestSchema, TaskStatusNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

const show = (...values) => console.log(...values.map((v) => (typeof v === 'string' ? v : JSON.stringify(v))));
const related = (meta) => meta?.['io.modelcontextprotocol/related-task']?.taskId;

const client = new Client(
  { name: 'typescript', version: '1' },
  {
    capabilities: {
      elicitation: { form: {} }, sampling: {},
      tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} } } },
    },
    taskStore: new InMemoryTaskStore(),
  },
);

client.setRequestHandler(CreateMessageRequestSchema, async (request, extra) => {
  const result = { role: 'assistant', model: 'm', content: { type: 'text', text: 'forty-two' } };
  if (!request.params.task) return result;
  const task = await extra.taskStore.createTask({ ttl: request.params.task.ttl, pollInterval: 50 });
  setTimeout(() => extra.taskStore.storeTaskResult(task.taskId, 'completed', result), 100);
  return { task };
});

let current; // id of the task that runs
client.setRequestHandler(ElicitRequestSchema, async (request) => {
  show('asked', request.params.message, related(request.params._meta) === current);
  return { action: 'accept', content: { colour: 'blue' } };
});

const notified = new Map(); // statuses by task id
client.setNotificationHandler(TaskStatusNotificationSchema, (n) => {
  notified.set(n.params.taskId, [...(notified.get(n.params.taskId) ?? []), n.params.status]);
});

const [command, ...args] = process.argv.slice(2);
const overHTTP = command.startsWith('http://');
let listens; // called once the server has answered the GET request, before which servers lose notifications
const listening = new Promise((resolve) => { listens = resolve; });
const transport = overHTTP
  ? new StreamableHTTPClientTransport(new URL(command), {
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      if (init?.method === 'GET') listens();
      return response;
    },
  })
  : new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
await client.connect(transport);
if (overHTTP) await listening;
const tasks = client.experimental.tasks;

// run calls a tool as a task and follows it to its end.
const run = async (name) => {
  const progress = [];
  let last = '';
  const options = { task: { ttl: 60000 }, onprogress: (p) => progress.push(p.progress) };
  for await (const message of tasks.callToolStream({ name, arguments: {} }, CallToolResultSchema, options)) {
    switch (message.type) {
      case 'taskCreated':
        current = message.task.taskId;
        show(name, 'created', message.task.status, message.task.ttl);
        break;
      case 'taskStatus':
        last = message.task.status;
        break;
      case 'result':
        show(name, 'result', message.result.content[0].text, related(message.result._meta) === current);
        break;
      case 'error':
        show(name, 'error after', last);
        break;
    }
  }
  if (!process.env.MAY_LOSE_NOTIFICATIONS) show(name, 'progress', progress);
  return current;
};

const job = await run('job');
if (!process.env.MAY_LOSE_NOTIFICATIONS) {
  while (notified.get(job)?.at(-1) !== 'completed') await new Promise((resolve) => setTimeout(resolve, 10)); // may come later
  show('job notified', notified.get(job).at(-1));
}
const again = await tasks.getTaskResult(job, CallToolResultSchema);
show('job again', again.content[0].text);

const failed = await run('fail inside');
const result = await tasks.getTaskResult(failed, CallToolResultSchema);
show('fail inside', result.isError, result.content[0].text, (await tasks.getTask(failed)).status);

const refused = async (what, call) => {
  try {
    await call();
    show(what, 'was not refused');
  } catch (e) {
    show(what, 'refused', e.code);
  }
};

const created = await client.request(
  { method: 'tools/call', params: { name: 'forever', arguments: {}, task: { ttl: 60000 } } },
  CreateTaskResultSchema,
);
const forever = created.task.taskId;
show('forever', (await tasks.getTask(forever)).status);
const waiting = refused('forever result', () => tasks.getTaskResult(forever, CallToolResultSchema));
const cancelled = await tasks.cancelTask(forever);
await waiting; // either response may arrive first
show('forever', cancelled.status);
await refused('cancel again', () => tasks.cancelTask(forever));
await refused('unknown', () => tasks.getTask('unknown'));

show('think', (await client.callTool({ name: 'think', arguments: {} })).content[0].text);

const ids = [];
for (let cursor; ;) {
  const page = await tasks.listTasks(cursor);
  ids.push(...page.tasks.map((t) => t.taskId));
  cursor = page.nextCursor;
  if (!cursor) break;
}
show('list', ids.length, [job, failed, forever].every((id) => ids.includes(id)));

if (transport.terminateSession) await transport.terminateSession();
await client.close();
show('done');
process.exit(); // timers of the store would keep the process alive
