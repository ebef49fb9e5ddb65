// A server of the official SDK that runs its tools as tasks and sends a request to be run as a task to its client.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { CallToolRequestSchema, ElicitResultSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { connect } from './connect.mjs';

const server = new Server(
  { name: 'typescript', version: '1' },
  {
    capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
    taskStore: new InMemoryTaskStore(),
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  },
);

const text = (text) => ({ content: [{ type: 'text', text }] });

const tools = {
  // job reports 1 and 2, requests a colour, and returns it. Over HTTP, the SDK cannot send progress on the request's
  // stream after the response, so it sends progress on the GET stream.
  job: async (taskId, extra) => {
    for (let progress = 1; progress <= 2; progress++) {
      await server.notification({
        method: 'notifications/progress',
        params: {
          progressToken: extra._meta.progressToken, progress, total: 2,
          _meta: { 'io.modelcontextprotocol/related-task': { taskId } },
        },
      });
    }
    const answer = await extra.sendRequest(
      {
        method: 'elicitation/create',
        params: {
          mode: 'form', message: 'which colour?',
          requestedSchema: { type: 'object', properties: { colour: { type: 'string' } } },
        },
      },
      ElicitResultSchema,
      { relatedTask: { taskId } },
    );
    await extra.taskStore.updateTaskStatus(taskId, 'working', 'painting');
    return text(`${answer.action} ${answer.content.colour}`);
  },
  'fail inside': async () => ({ ...text('no luck'), isError: true }),
  forever: () => new Promise(() => {}),
};

// think is not a task. It samples the client's model as a task and returns the response.
const think = async () => {
  const question = { messages: [{ role: 'user', content: { type: 'text', text: 'how much?' } }], maxTokens: 10 };
  let created;
  for await (const message of server.experimental.tasks.createMessageStream(question, { task: { ttl: 60000 } })) {
    if (message.type === 'taskCreated') created = message.task;
    if (message.type === 'result') return text(`${message.result.content.text} from a task that was ${created.status}`);
    if (message.type === 'error') throw message.error;
  }
};

server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
  if (request.params.name === 'think') return think();
  const task = await extra.taskStore.createTask({ ttl: request.params.task.ttl, pollInterval: 50 });
  tools[request.params.name](task.taskId, extra).then((result) =>
    extra.taskStore.storeTaskResult(task.taskId, result.isError ? 'failed' : 'completed', result));
  return { task };
});

server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [...Object.keys(tools), 'think'].map((name) => ({
    name, inputSchema: { type: 'object' }, execution: { taskSupport: name === 'think' ? 'forbidden' : 'required' },
  })),
}));

await connect(server);
