// node one.mjs URL TOKEN JSONRPC|HTTP+JSON WEBHOOK: the official client of generation 1.0.
import { randomUUID } from 'node:crypto';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from 'a2a-v1/client';
import { base, binding, collect, refusal, settled, step, webhook, withToken } from './steps.mjs';

const USER = 1;
const STATES = ['UNSPECIFIED', 'SUBMITTED', 'WORKING', 'COMPLETED', 'FAILED', 'CANCELED', 'INPUT_REQUIRED', 'REJECTED'];

const part = (kind, value, more = {}) => ({
  content: { $case: kind, value },
  metadata: undefined,
  filename: '',
  mediaType: '',
  ...more,
});
const text = (value) => part('text', value);

function request(parts, { taskId = '', contextId = '', messageId = randomUUID(), wait = true } = {}) {
  const addressed = { messageId, contextId, taskId };
  return {
    tenant: '',
    metadata: undefined,
    message: { ...addressed, role: USER, parts, metadata: undefined, extensions: [], referenceTaskIds: [] },
    configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: !wait },
  };
}

const state = (held) => STATES[held.status.state];
const isMoving = (task) => ['SUBMITTED', 'WORKING'].includes(state(task));
const words = (parts) => parts.map(({ content }) => (content.$case === 'text' ? content.value : `<${content.$case}>`)).join('');
const artifact = (task, name) => words(task.artifacts.filter((held) => held.name === name).flatMap((held) => held.parts));
const show = (task) => ({ state: state(task), answer: artifact(task, 'answer'), history: task.history?.length ?? 0 });
const ask = (id) => client.getTask({ tenant: '', id });

function kind({ payload: { $case, value } }) {
  return $case === 'artifactUpdate' ? `artifact:${value.artifact.name}` : `${$case}:${state(value)}`;
}

function pieces(events) {
  // What the artifact "numbers" is to someone who knows only these events.
  let known = '';
  for (const { payload } of events) {
    if (payload.$case === 'task') known = artifact(payload.value, 'numbers');
    if (payload.$case === 'artifactUpdate' && payload.value.artifact.name === 'numbers') {
      known = (payload.value.append ? known : '') + words(payload.value.artifact.parts);
    }
  }
  return known;
}

let client;
await step('card', async () => {
  const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new JsonRpcTransportFactory({ fetchImpl: withToken }), new RestTransportFactory({ fetchImpl: withToken })],
    preferredTransports: [binding],
    cardResolver: new DefaultAgentCardResolver({ fetchImpl: withToken }),
  });
  client = await new ClientFactory(options).createFromUrl(base);
  return { version: client.protocolVersion, binding: client.transport.protocolName };
});

await step('send', async () => show(await client.sendMessage(request([text('こんにちは')]))));
await step('twice', async () => {
  const once = request([text('only once')]);
  const [first, second] = [await client.sendMessage(once), await client.sendMessage(once)];
  return { same: first.id === second.id };
});
await step('parts', async () => {
  const sent = [
    text('see'),
    part('raw', Buffer.from('bytes'), { filename: 'note.txt', mediaType: 'text/plain' }),
    part('url', 'https://example.com/表.csv', { filename: '表.csv', mediaType: 'text/csv' }),
    part('data', { 金額: 42 }),
  ];
  const task = await client.sendMessage(request(sent));
  const [kept] = (await ask(task.id)).history;
  return {
    state: state(task),
    kept: words(kept.parts),
    raw: Buffer.from(kept.parts[1].content.value).toString(),
    url: kept.parts[2].content.value,
    data: kept.parts[3].content.value,
  };
});
await step('poll', async () => {
  const begun = await client.sendMessage(request([text('slow')], { wait: false }));
  return { wasMoving: isMoving(begun), ...show(await settled(begun, isMoving, ask)) };
});
await step('stream', async () => ({ events: (await collect(client.sendMessageStream(request([text('hello')])))).map(kind) }));
await step('cut', async () => {
  const begun = await collect(client.sendMessageStream(request([text('slow')])), (event) => event.payload.$case === 'artifactUpdate');
  const rest = await collect(client.resubscribeTask({ tenant: '', id: begun[0].payload.value.id }));
  return { before: pieces(begun), first: rest[0].payload.$case, all: pieces(rest), last: kind(rest.at(-1)) };
});
await step('cancel', async () => {
  const task = await client.sendMessage(request([text('slow')], { wait: false }));
  const canceled = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
  return { state: state(canceled), again: await refusal(() => client.cancelTask({ tenant: '', id: task.id, metadata: undefined })) };
});
await step('approve', async () => {
  const asked = await client.sendMessage(request([text('支払い 12000円')]));
  const { id: taskId, contextId } = asked;
  const done = await client.sendMessage(request([text('承認します。処理を続けてください。')], { taskId, contextId }));
  return { asked: state(asked), same: asked.id === done.id, ...show(done) };
});
await step('list', async () => {
  const first = await client.sendMessage(request([text('one')]));
  await client.sendMessage(request([text('two')], { contextId: first.contextId }));
  const query = { tenant: '', contextId: first.contextId, status: 0, pageSize: 1, statusTimestampAfter: undefined };
  const page = await client.listTasks({ ...query, pageToken: '' });
  const next = await client.listTasks({ ...query, pageToken: page.nextPageToken });
  const found = [...page.tasks, ...next.tasks].map((task) => task.id);
  return { total: page.totalSize, found: new Set(found).size, more: next.nextPageToken };
});
await step('push', async () => {
  const { id: taskId } = await client.sendMessage(request([text('slow')], { wait: false }));
  const hook = { tenant: '', id: 'hook-1', taskId, url: webhook, token: 'known to me', authentication: undefined };
  const made = await client.createTaskPushNotificationConfig(hook);
  const got = await client.getTaskPushNotificationConfig({ tenant: '', taskId, id: made.id });
  const listing = { tenant: '', taskId, pageSize: 0, pageToken: '' };
  const listed = await client.listTaskPushNotificationConfig(listing);
  await client.createTaskPushNotificationConfig({ ...hook, id: 'hook-2' });
  await client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: made.id });
  const left = await client.listTaskPushNotificationConfig(listing);
  await settled(await ask(taskId), isMoving, ask);
  return { url: got.url, listed: listed.configs.map(({ id }) => id), left: left.configs.map(({ id }) => id) };
});
await step('extended card', async () => ({ name: (await client.getAgentCard()).name }));
await step('unknown task', () => refusal(() => ask('no-such-task')));
