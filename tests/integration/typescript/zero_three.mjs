// node zero_three.mjs URL TOKEN JSONRPC|HTTP+JSON WEBHOOK: the official client of generation 0.3.
import { randomUUID } from 'node:crypto';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from 'a2a-v03/client';
import { base, binding, collect, refusal, settled, step, webhook, withToken } from './steps.mjs';

const text = (value) => ({ kind: 'text', text: value });

function request(parts, { taskId, contextId, messageId = randomUUID(), wait = true } = {}) {
  const addressed = { messageId, ...(taskId && { taskId }), ...(contextId && { contextId }) };
  return { message: { kind: 'message', role: 'user', parts, ...addressed }, configuration: { blocking: wait } };
}

const state = (held) => held.status.state;
const isMoving = (task) => ['submitted', 'working'].includes(state(task));
const words = (parts) => parts.map((part) => (part.kind === 'text' ? part.text : `<${part.kind}>`)).join('');
const artifact = (task, name) =>
  words((task.artifacts ?? []).filter((held) => held.name === name).flatMap((held) => held.parts));
const show = (task) => ({ state: state(task), answer: artifact(task, 'answer'), history: task.history?.length ?? 0 });
const ask = (id) => client.getTask({ id });
const kind = (event) => (event.kind === 'artifact-update' ? `artifact:${event.artifact.name}` : `${event.kind}:${state(event)}`);

function pieces(events) {
  // What the artifact "numbers" is to someone who knows only these events.
  let known = '';
  for (const event of events) {
    if (event.kind === 'task') known = artifact(event, 'numbers');
    if (event.kind === 'artifact-update' && event.artifact.name === 'numbers') {
      // Over HTTP+JSON the client loses the field.
      known = (event.append === false ? '' : known) + words(event.artifact.parts);
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
  const isRest = client.transport.constructor.name.includes('Rest');
  return { version: '0.3', binding: isRest ? 'HTTP+JSON' : 'JSONRPC' };
});

await step('send', async () => show(await client.sendMessage(request([text('こんにちは')]))));
await step('twice', async () => {
  const once = request([text('only once')]);
  const [first, second] = [await client.sendMessage(once), await client.sendMessage(once)];
  return { same: first.id === second.id };
});
await step('parts', async () => {
  const bytes = Buffer.from('bytes').toString('base64');
  const sent = [
    text('see'),
    { kind: 'file', file: { bytes, name: 'note.txt', mimeType: 'text/plain' } },
    { kind: 'file', file: { uri: 'https://example.com/表.csv', name: '表.csv', mimeType: 'text/csv' } },
    { kind: 'data', data: { 金額: 42 } },
  ];
  const task = await client.sendMessage(request(sent));
  const [kept] = (await ask(task.id)).history;
  return {
    state: state(task),
    kept: words(kept.parts),
    raw: Buffer.from(kept.parts[1].file.bytes, 'base64').toString(),
    url: kept.parts[2].file.uri,
    data: kept.parts[3].data,
  };
});
await step('poll', async () => {
  const begun = await client.sendMessage(request([text('slow')], { wait: false }));
  return { wasMoving: isMoving(begun), ...show(await settled(begun, isMoving, ask)) };
});
await step('stream', async () => ({ events: (await collect(client.sendMessageStream(request([text('hello')])))).map(kind) }));
await step('cut', async () => {
  const begun = await collect(client.sendMessageStream(request([text('slow')])), (event) => event.kind === 'artifact-update');
  const rest = await collect(client.resubscribeTask({ id: begun[0].id }));
  return { before: pieces(begun), first: rest[0].kind, all: pieces(rest), last: kind(rest.at(-1)) };
});
await step('cancel', async () => {
  const task = await client.sendMessage(request([text('slow')], { wait: false }));
  const canceled = await client.cancelTask({ id: task.id });
  return { state: state(canceled), again: await refusal(() => client.cancelTask({ id: task.id })) };
});
await step('approve', async () => {
  const asked = await client.sendMessage(request([text('支払い 12000円')]));
  const { id: taskId, contextId } = asked;
  const done = await client.sendMessage(request([text('承認します。処理を続けてください。')], { taskId, contextId }));
  return { asked: state(asked), same: asked.id === done.id, ...show(done) };
});
await step('push', async () => {
  const { id } = await client.sendMessage(request([text('slow')], { wait: false }));
  const hook = { id: 'hook-1', url: webhook, token: 'known to me' };
  const made = await client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig: hook });
  const which = { id, pushNotificationConfigId: made.pushNotificationConfig.id };
  const got = await client.getTaskPushNotificationConfig(which);
  const listed = await client.listTaskPushNotificationConfig({ id });
  await client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig: { ...hook, id: 'hook-2' } });
  await client.deleteTaskPushNotificationConfig(which);
  const left = await client.listTaskPushNotificationConfig({ id });
  await settled(await ask(id), isMoving, ask);
  const ids = (configs) => configs.map(({ pushNotificationConfig }) => pushNotificationConfig.id);
  return { url: got.pushNotificationConfig.url, listed: ids(listed), left: ids(left) };
});
await step('extended card', async () => ({ name: (await client.getAgentCard()).name }));
await step('unknown task', () => refusal(() => ask('no-such-task')));
