// A server on the official SDK that runs its tools as tasks.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { InMemoryTaskMessageQueue, InMemoryTaskStore } from '@modelcontextprotocol/sdk/experimental/tasks/stores/in-memory.js';
import { CallToolRequestSchema, ElicitResultSchema } from '@modelcontextprotocol/sdk/types.js';

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
  // job reports 1 and 2, asks for a colour, and answers with it.
  job: async (taskId, extra) => {
    for (let progress = 1; progress <= 2; progress++) {
      await extra.sendNotification({
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

server.setRequestHandler(CallToolRequestSchema, async (request, extra) => {
  const task = await extra.taskStore.createTask({ ttl: request.params.task.ttl, pollInterval: 50 });
  tools[request.params.name](task.taskId, extra).then((result) =>
    extra.taskStore.storeTaskResult(task.taskId, result.isError ? 'failed' : 'completed', result));
  return { task };
});

await server.connect(new StdioServerTransport());
