// What the drivers of both generations share: steps that report as lines of JSON, and fetching with a token.

export const [base, token, binding, webhook] = process.argv.slice(2);

export const withToken = (url, init = {}) => {
  const headers = new Headers(init.headers);
  headers.set('Authorization', `Bearer ${token}`);
  return fetch(url, { ...init, headers });
};

export async function step(name, work) {
  let report;
  try {
    report = { step: name, ok: true, ...(await work()) };
  } catch (error) {
    report = { step: name, ok: false, error: error?.constructor?.name, message: String(error?.message ?? error) };
  }
  console.log(JSON.stringify(report));
  return report.ok;
}

export async function collect(stream, isEnough = () => false) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (isEnough(event)) break;
  }
  return events;
}

export async function settled(task, isMoving, get) {
  for (let turn = 0; turn < 200 && isMoving(task); turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    task = await get(task.id);
  }
  return task;
}

export async function refusal(work) {
  try {
    await work();
    return { refused: false };
  } catch (error) {
    return { refused: true, error: error.constructor.name };
  }
}
