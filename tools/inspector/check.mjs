// Lists and calls every feature with the command lines of the Inspector, and compares the output with the known responses
// of the servers. The first command line, --cli, opens a connection for each command. The second, mcpdo, keeps connections
// open, and supports tasks, completion, subscriptions, roots and elicitation. Neither supports sampling. Input requests of
// tasks cannot be tested: mcpdo calls tasks/result, with which input requests are sent, only when a task is terminal, and
// shows no input request if it is told to call it earlier.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';

const [work] = process.argv.slice(2);
const mcpwire = join(work, 'mcpwire');
const clients = resolve('node_modules/@modelcontextprotocol/inspector/clients');
const env = {
	...process.env,
	HOME: work, MCP_INSPECTOR_SECRET_STORE: 'file',
	// The values that mcpdo private prints. They give this process its own daemon.
	MCP_INSPECTOR_DAEMON_DIR: join(work, 'daemon'), MCP_INSPECTOR_DAEMON_TOKEN: 'inspector',
};

let failed = 0;

async function check(name, test) {
	try {
		await test();
		console.log(`✓ ${name}`);
	} catch (err) {
		failed++;
		console.log(`✗ ${name}\n${err.message.replace(/^/gm, '    ')}`);
	}
}

// start runs one of the Inspector's programs, for two minutes at most.
function start(program, args) {
	const child = spawn(process.execPath, [join(clients, program), '--format', 'json', ...args], {
		env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 120_000,
	});
	const out = { stdout: '', stderr: '' };
	for (const name of Object.keys(out)) child[name].setEncoding('utf8').on('data', (text) => (out[name] += text));
	const done = new Promise((resolve) => child.on('close', (code) => resolve({ code, ...out })));
	return { child, out, done };
}

// failure returns the error that a program reports, as a line on standard error.
function failure(stderr) {
	const line = stderr.split('\n').find((line) => line.startsWith('{"error"'));
	return line ? JSON.parse(line).error : undefined;
}

async function run(program, args) {
	const { code, stdout, stderr } = await start(program, args).done;
	const out = stdout ? JSON.parse(stdout) : undefined;
	const error = failure(stderr);
	assert.equal(code === 0, error === undefined, `it exits with ${code} and says\n${stderr}`);
	return { out, error };
}

async function cli(target, method, ...flags) {
	const { out, error } = await run('cli/build/index.js', ['--method', method, ...flags, '--', ...target]);
	return { result: out?.result, error };
}

// mcpdo runs a command that must succeed and returns its output.
async function mcpdo(...args) {
	const { out, error } = await run('mcpdo/build/mcp-bin.js', args);
	assert.equal(error, undefined, error?.message);
	return out;
}

async function mcpdoFails(...args) {
	const { error } = await run('mcpdo/build/mcp-bin.js', args);
	assert.ok(error, 'it succeeds');
	return error.message;
}

async function until(what, holds) {
	for (const end = Date.now() + 60_000; !(await holds()); await new Promise((resolve) => setTimeout(resolve, 20)))
		assert.ok(Date.now() < end, `${what} does not come`);
}

const text = (text) => ({ type: 'text', text });
const says = (...lines) => ({ content: [text(lines.join('\n'))] });
const refuses = (...lines) => ({ ...says(...lines), isError: true });
const undeclared = (method, capability) => refuses(`session: ${method} needs the capability ${capability}, which the peer has not declared`);
const noncompliant = (...faults) => refuses('The arguments do not comply with the input schema of this tool.', ...faults);

const pixel = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABAQMAAAAl21bKAAAAA1BMVEX/AAAZ4gk3AAAADklEQVR4nGJgAAQAAP//AAIAAUu7KZ8AAAAASUVORK5CYII=';
const picture = { type: 'image', mimeType: 'image/png', data: pixel };
const nowhere = { type: 'object', additionalProperties: false };

// calls lists a call of every tool by --cli, with the result. --cli declares no capabilities for requests of the server.
const calls = (cut) => [
	['add', { a: 1, b: 2.5 }, { content: [text('{"sum":3.5}')], structuredContent: { sum: 3.5 } }],
	['add', { a: 1 }, noncompliant("missing property 'b'")],
	['add', { a: 1, b: 2, c: 3 }, noncompliant("additional properties 'c' not allowed")],
	['alphabet', { letters: 26 }, says('abcdefghijklmnopqrstuvwxyz')],
	['countdown', { from: 0 }, says('Lift-off!')],
	['greet', { name: 'Ada' }, says('Hello, Ada!')],
	['json_schema_2020_12_tool', { contactMethod: 'phone', phone: '1', address: { city: 'Oslo' } }, says('The contact is complete.')],
	['json_schema_2020_12_tool', { contactMethod: 'phone', email: 'a@example.com' }, noncompliant("missing property 'phone'")],
	['roots', {}, says('The client has 0 roots.')],
	['slow_compute', { seconds: 0, label: 'nothing' }, says('Computed nothing.')],
	['test_audio_content', {}, { content: [{ type: 'audio', mimeType: 'audio/wav', data: 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=' }] }],
	['test_elicitation', { message: 'Who is it?' }, undeclared('elicitation/create', 'elicitation.form')],
	['test_elicitation_sep1034_defaults', {}, undeclared('elicitation/create', 'elicitation.form')],
	['test_elicitation_sep1330_enums', {}, undeclared('elicitation/create', 'elicitation.form')],
	['test_embedded_resource', {}, { content: [{ type: 'resource', resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'A text inside of a result.' } }] }],
	['test_error_handling', {}, refuses('this tool always fails')],
	['test_image_content', {}, { content: [picture] }],
	['test_multiple_content_types', {}, { content: [
		text('A text, a picture, a resource and a link.'), picture,
		{ type: 'resource', resource: { uri: 'test://mixed-content-resource', mimeType: 'application/json', text: '{"answer":42}' } },
		{ type: 'resource_link', name: 'static-text', uri: 'test://static-text' },
	] }],
	['test_reconnection', {}, says(`The connection was cut: ${cut}.`)],
	['test_sampling', { prompt: 'Hello?' }, undeclared('sampling/createMessage', 'sampling')],
	['test_simple_text', {}, says('A text.')],
	['test_tool_with_logging', {}, says('Three messages were logged.')],
	['test_tool_with_progress', {}, says('Progress was reported.')],
	['touch', {}, says('Touched.')],
];

// uncalled has the tools for the scenarios of revision 2026-07-28, which the Inspector does not speak.
const uncalled = [
	'changing_tool', 'confirm_delete', 'failing_job', 'located', 'multi_input', 'protocol_error_job', 'test_input_required_result_capabilities', 'test_input_required_result_elicitation',
	'test_input_required_result_list_roots', 'test_input_required_result_multi_round', 'test_input_required_result_multiple_inputs',
	'test_input_required_result_request_state', 'test_input_required_result_sampling', 'test_input_required_result_tampered_state',
	'test_logging_tool', 'test_missing_capability', 'test_streaming_elicitation', 'test_tool_with_task', 'test_trigger_prompt_change',
	'test_trigger_tool_change',
];

// lists has the results of the methods that list features.
const lists = {
	'resources/list': { resources: [
		{ name: 'static-binary', uri: 'test://static-binary', description: 'A red pixel.', mimeType: 'image/png' },
		{ name: 'static-text', uri: 'test://static-text', description: 'A text.', mimeType: 'text/plain' },
		{ name: 'watched-resource', uri: 'test://watched-resource', description: 'A text to subscribe to: the tool touch changes it.', mimeType: 'text/plain' },
		{ name: 'greeting', uri: 'skill://greeting/SKILL.md', description: 'Greets a person in their language. Use it when somebody says who they are.', mimeType: 'text/markdown', size: 342 },
	] },
	'resources/templates/list': { resourceTemplates: [
		{ name: 'skills', uriTemplate: 'skill://{+path}', description: 'The files of skills.' },
		{ name: 'template', uriTemplate: 'test://template/{id}/data', description: 'Data for an id.', mimeType: 'application/json' },
	] },
	'prompts/list': { prompts: [
		{ name: 'changing_prompt', description: 'Is changed by a tool.' },
		{ name: 'test_input_required_result_prompt', description: 'Asks the user for the context of the prompt.' },
		{ name: 'test_prompt_with_arguments', description: 'Asks about two places.', arguments: [
			{ name: 'arg1', description: 'the first place', required: true }, { name: 'arg2', description: 'the second place', required: true },
		] },
		{ name: 'test_prompt_with_embedded_resource', description: 'Asks about a resource.', arguments: [{ name: 'resourceUri', description: 'the resource', required: true }] },
		{ name: 'test_prompt_with_image', description: 'Asks about a picture.' },
		{ name: 'test_simple_prompt', description: 'Asks for a test.' },
	] },
};

const resources = {
	'test://static-text': { mimeType: 'text/plain', text: 'A text that is always the same.' },
	'test://static-binary': { mimeType: 'image/png', blob: pixel },
	'test://watched-resource': { mimeType: 'text/plain', text: 'A text that is touched at times.' },
	'test://template/7/data': { mimeType: 'application/json', text: '{"id":"7"}' },
};

const user = (content) => ({ role: 'user', content });
const prompts = [
	['test_simple_prompt', {}, [user(text('Please test this.'))]],
	['test_prompt_with_arguments', { arg1: 'Paris', arg2: 'Oslo' }, [user(text('What is the way from Paris to Oslo?'))]],
	['test_prompt_with_embedded_resource', { resourceUri: 'test://a' }, [
		user({ type: 'resource', resource: { uri: 'test://a', mimeType: 'text/plain', text: 'A text inside of a prompt.' } }), user(text('Please sum up this text.')),
	]],
	['test_prompt_with_image', {}, [user(picture), user(text('What is on this picture?'))]],
];

// everything checks --cli with the everything server. Over HTTP one of its tools cuts the connection, and tasks are not
// listed, because the server cannot distinguish clients.
async function everything(name, target, http) {
	await check(`${name}: initialize`, async () => {
		const { result } = await cli(target, 'initialize');
		assert.equal(result.protocolVersion, '2025-11-25');
		assert.equal(result.serverInfo.title, 'Everything');
		assert.equal(result.instructions, 'Call the tool countdown as a task to see one at work.');
		assert.deepEqual(result.capabilities, {
			completions: {}, extensions: { 'io.modelcontextprotocol/skills': { directoryRead: true } }, logging: {}, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true },
			tasks: { cancel: {}, ...(!http && { list: {} }), requests: { tools: { call: {} } } }, tools: { listChanged: true },
		});
	});
	await check(`${name}: tools/list`, async () => {
		const { result, error } = await cli(target, 'tools/list', '--strict'); // fails if a schema is not portable
		assert.equal(error, undefined, error?.message);
		assert.deepEqual(result.tools.map((tool) => tool.name), [...new Set([...calls().map(([tool]) => tool), ...uncalled])].sort());
		const number = (description) => ({ type: 'number', description });
		assert.deepEqual(result.tools.find((tool) => tool.name === 'add'), {
			name: 'add', title: 'Add', description: 'Adds two numbers.',
			inputSchema: { type: 'object', properties: { a: number('the first term'), b: number('the second term') }, required: ['a', 'b'], additionalProperties: false },
			outputSchema: { type: 'object', properties: { sum: { type: 'number' } }, required: ['sum'], additionalProperties: false },
			annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
		});
		assert.deepEqual(result.tools.find((tool) => tool.name === 'countdown').execution, { taskSupport: 'optional' });
		assert.deepEqual(result.tools.find((tool) => tool.name === 'touch').inputSchema, nowhere);
	});
	for (const [tool, args, want] of calls(http)) {
		await check(`${name}: tools/call ${tool} ${JSON.stringify(args)}`, async () => {
			const { result, error } = await cli(target, 'tools/call', '--tool-name', tool, '--tool-args-json', JSON.stringify(args));
			assert.deepEqual(result, want);
			assert.equal(error?.code, want.isError && 'tool_is_error', error?.message);
		});
	}
	for (const [method, want] of Object.entries(lists)) {
		await check(`${name}: ${method}`, async () => assert.deepEqual((await cli(target, method)).result, want));
	}
	for (const [uri, contents] of Object.entries(resources)) {
		await check(`${name}: resources/read ${uri}`, async () => {
			assert.deepEqual((await cli(target, 'resources/read', '--uri', uri)).result, { contents: [{ uri, ...contents }] });
		});
	}
	await check(`${name}: resources/read of an unknown resource`, async () => {
		assert.equal((await cli(target, 'resources/read', '--uri', 'test://none')).error.message, 'resource not found: "test://none"');
	});
	for (const [prompt, args, messages] of prompts) {
		await check(`${name}: prompts/get ${prompt}`, async () => {
			const flags = Object.entries(args).map(([key, value]) => `${key}=${value}`);
			if (flags.length) flags.unshift('--prompt-args');
			assert.deepEqual((await cli(target, 'prompts/get', '--prompt-name', prompt, ...flags)).result, { messages });
		});
	}
	await check(`${name}: prompts/get without a required argument`, async () => {
		const { error } = await cli(target, 'prompts/get', '--prompt-name', 'test_prompt_with_arguments', '--prompt-args', 'arg1=Paris');
		assert.equal(error.message, 'prompt "test_prompt_with_arguments" needs the argument "arg2"');
	});
	await check(`${name}: logging/setLevel`, async () => {
		assert.deepEqual((await cli(target, 'logging/setLevel', '--log-level', 'warning')).result, {});
	});
}

// connected checks mcpdo on one connection to the everything server.
async function connected(name, target, http) {
	const connection = ['--connection', name];
	const on = (...args) => mcpdo(...connection, ...args);

	await check(`${name}: connect`, async () => {
		const { protocolEra } = await mcpdo('connect', ...connection, '--', ...target);
		assert.equal(protocolEra, 'legacy'); // that of revisions with initialize
		const { protocolVersion, serverInfo } = await on('connections/show');
		assert.deepEqual([protocolVersion, serverInfo.name], ['2025-11-25', 'mcpwire-everything']);
	});
	await check(`${name}: completion of a prompt's argument`, async () => {
		const got = await on('prompts/complete', '--complete-ref-type', 'ref/prompt', '--complete-ref', 'test_prompt_with_arguments',
			'--complete-arg-name', 'arg1', '--complete-arg-value', 'Pa');
		assert.deepEqual(got, { values: ['Paris', 'Parma'], total: 2, hasMore: false });
	});
	await check(`${name}: completion of a template's variable`, async () => {
		const got = await on('prompts/complete', '--complete-ref-type', 'ref/resource', '--complete-ref', 'test://template/{id}/data',
			'--complete-arg-name', 'id', '--complete-arg-value', '12');
		assert.deepEqual(got, { values: ['12', '123'], total: 2, hasMore: false });
	});
	await check(`${name}: changed roots`, async () => {
		for (const roots of [[{ uri: 'file:///a' }], [{ uri: 'file:///a' }, { uri: 'file:///b' }]]) {
			await on('roots/set', '--roots-json', JSON.stringify(roots));
			const lines = [`The client has ${roots.length} roots.`, ...roots.map((root) => root.uri)];
			assert.deepEqual(await on('tools/call', 'roots'), says(...lines));
		}
	});
	// An input request is the result of the command; the response is the next command.
	await check(`${name}: accepted elicitation`, async () => {
		const { elicitationPending: asked } = await on('tools/call', 'test_elicitation', 'message:=Who is it?');
		assert.equal(asked.message, 'Who is it?');
		assert.deepEqual(asked.requestedSchema.required, ['username', 'email']);
		const got = await mcpdo('elicitation/respond', asked.elicitationId, 'username:=Ann', 'email:=ann@example.com');
		assert.deepEqual(got, says("The user's answer is accept: Ann <ann@example.com>."));
	});
	await check(`${name}: declined elicitation with choices`, async () => {
		const { elicitationPending: asked } = await on('tools/call', 'test_elicitation_sep1330_enums');
		assert.equal(asked.requestedSchema.properties.titledMulti.items.anyOf[2].title, 'Three');
		assert.deepEqual(await mcpdo('elicitation/respond', asked.elicitationId, '--decline'), says('The user\'s answer: {"action":"decline"}'));
	});
	await check(`${name}: log messages`, async () => {
		await on('logging/setLevel', 'debug');
		await following([...connection, 'logging/tail'], async (shown) => {
			const all = () => ['Begun.', 'At work.', 'Done.'].every((message) => shown().includes(`"data": "${message}"`));
			await until('log messages', async () => { // which is shown from some time on after the command has begun
				assert.deepEqual(await on('tools/call', 'test_tool_with_logging'), says('Three messages were logged.'));
				return all();
			});
		});
	});
	await check(`${name}: subscription`, async () => {
		await following([...connection, 'resources/subscribe', 'test://watched-resource'], async (shown) => {
			await until('the subscription', () => shown().includes('"subscribed"'));
			assert.deepEqual(await on('tools/call', 'touch'), says('Touched.'));
			await until('the update', () => shown().includes('"resources/updated"'));
		});
	});
	await check(`${name}: tools/call as a task`, async () => {
		const got = await on('tools/call', 'countdown', 'from:=1', '--task');
		assert.deepEqual(got.content, says('Lift-off!').content);
		const id = got._meta['io.modelcontextprotocol/related-task'].taskId;
		if (!http) {
			const { tasks } = await on('tasks/list');
			assert.equal(tasks.find((task) => task.taskId === id).status, 'completed');
		}
		const { task } = await on('tasks/get', id);
		assert.deepEqual([task.taskId, task.status, task.ttl], [id, 'completed', 3_600_000]);
		assert.deepEqual(await on('tasks/result', id), got);
		assert.equal(await mcpdoFails(...connection, 'tasks/cancel', id), 'task is already terminal: its status is completed');
	});
	await check(`${name}: an unknown task`, async () => {
		assert.equal(await mcpdoFails(...connection, 'tasks/get', 'nothing'), 'task: not found: "nothing"');
	});
	await check(`${name}: disconnect`, async () => {
		await mcpdo('disconnect', name);
		const { connections } = await mcpdo('connections/list');
		assert.ok(connections.every((connection) => connection.name !== name), 'it is still connected');
	});
}

// following runs a test while a command shows messages of the server, and then ends the command.
async function following(args, test) {
	const { child, out, done } = start('mcpdo/build/mcp-bin.js', args);
	try {
		await test(() => out.stdout);
	} finally {
		child.kill('SIGINT');
		await done;
	}
}

// created returns the ids of the tasks that were created in a recording.
function created(record) {
	const lines = existsSync(record) ? (readFileSync(record, 'utf8').match(/^.*"mcp.CreateTaskResult".*\n/gm) ?? []) : [];
	return lines.map((line) => JSON.parse(line).message.result.task.taskId);
}

// durable checks that a task survives a crash of its server, which mcpdo starts again. The argument of the tool is its
// duration in seconds. A recorder between the two shows when the task exists, because mcpdo does nothing else on a
// connection until a call has ended.
async function durable(name, target, tool, arg, want) {
	const connection = ['--connection', name];
	const on = (...args) => mcpdo(...connection, ...args);
	const [record, pid] = ['ndjson', 'pid'].map((suffix) => join(work, `${name}.${suffix}`));
	const interrupted = async (seconds) => {
		const before = created(record).length;
		const call = start('mcpdo/build/mcp-bin.js', [...connection, 'tools/call', tool, `${arg}:=${seconds}`, '--task']);
		await until('the task', () => created(record).length > before);
		process.kill(Number(readFileSync(pid, 'utf8')), 'SIGKILL');
		assert.notEqual((await call.done).code, 0);
		return created(record).at(-1);
	};
	await check(`${name}: connect`, async () => {
		await mcpdo('connect', ...connection, '--', mcpwire, 'record', '-o', record, 'sh', '-c', 'echo $$ >"$0"; exec "$@"', pid, ...target);
	});
	await check(`${name}: a task that survives its server`, async () => {
		const id = await interrupted(2);
		assert.deepEqual((await on('tasks/result', id)).content, says(want).content);
		assert.deepEqual((await on('tasks/list')).tasks.map((task) => [task.taskId, task.status]), [[id, 'completed']]);
	});
	await check(`${name}: a task that survives its server and is cancelled`, async () => {
		const id = await interrupted(600);
		await on('tasks/cancel', id);
		assert.equal((await on('tasks/get', id)).task.status, 'cancelled');
	});
	await check(`${name}: disconnect`, () => mcpdo('disconnect', name));
}

// aside checks a second connection to a task that the first one waits for. A recorder on the first connection shows the id
// of the task.
async function aside(name, url) {
	const [waiting, other] = ['waiting', 'other'].map((which) => `${name}-${which}`);
	const on = (...args) => mcpdo('--connection', other, ...args);
	const record = join(work, `${waiting}.ndjson`);
	await check(`${name}: two connections`, async () => {
		await mcpdo('connect', '--connection', waiting, '--', mcpwire, 'record', '-o', record, url);
		await mcpdo('connect', '--connection', other, '--', url);
	});
	await check(`${name}: a cancelled task`, async () => {
		const { done } = start('mcpdo/build/mcp-bin.js', ['--connection', waiting, 'tools/call', 'countdown', 'from:=600', '--task']);
		await until('the task', () => created(record).length > 0);
		const [id] = created(record);
		await on('tasks/cancel', id);
		assert.equal((await on('tasks/get', id)).task.status, 'cancelled');
		assert.notEqual((await done).code, 0);
	});
	await check(`${name}: disconnect both`, async () => {
		for (const connection of [waiting, other]) await mcpdo('disconnect', connection);
	});
}

// serving runs a test while the everything server runs over HTTP.
async function serving(test) {
	const server = spawn(mcpwire, ['serve', '-http', 'localhost:0'], { stdio: ['ignore', 'pipe', 'inherit'] });
	const ended = new Promise((resolve) => server.on('close', resolve));
	try {
		const line = await Promise.race([new Promise((resolve) => createInterface(server.stdout).once('line', resolve)), ended]);
		assert.ok(typeof line === 'string', 'mcpwire serve did not start');
		await test(line.replace('serving at ', ''));
	} finally {
		server.kill();
		await ended;
	}
}

// readme checks the server of README.md, which stores its tasks in its working directory.
async function readme() {
	process.chdir(work);
	const studio = [join(work, 'studio', 'studio')];
	await check('README: tools/list', async () => {
		const { result } = await cli(studio, 'tools/list');
		assert.deepEqual(result.tools.map((tool) => [tool.name, tool.execution?.taskSupport]), [['render', 'optional']]);
	});
	await check('README: tools/call', async () => {
		assert.deepEqual((await cli(studio, 'tools/call', '--tool-name', 'render', '--tool-arg', 'frames=1')).result, says('1 frames'));
	});
	await durable('README', studio, 'render', 'frames', '2 frames');
}

const begun = Date.now();
const stdio = [mcpwire, 'serve'];
try {
	await Promise.all([
		everything('stdio', stdio, false),
		connected('stdio', stdio, false),
		serving((url) => Promise.all([everything('http', [url], true), connected('http', [url], true).then(() => aside('http', url))])),
		durable('durable', [...stdio, '-store', join(work, 'everything.db')], 'countdown', 'from', 'Lift-off!'),
		readme(),
	]);
} finally {
	await mcpdo('daemon', 'stop');
	await until('the end of the daemon', () => !existsSync(join(env.MCP_INSPECTOR_DAEMON_DIR, 'mcpdod.sock')));
}
console.log(failed ? `${failed} FAILED` : `all well in ${Math.round((Date.now() - begun) / 1000)} s`);
process.exitCode = failed ? 1 : 0;
