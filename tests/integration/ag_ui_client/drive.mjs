// Drives the official client of AG-UI: a turn with a tool, an approval that is resumed, and a reload.
import { HttpAgent } from "@ag-ui/client";

const [url] = process.argv.slice(2);
const report = {};

function watch(name) {
  report[name] = { events: [], outcome: null, error: null };
  return {
    onEvent: ({ event }) => void report[name].events.push(event.type),
    onRunFinishedEvent: ({ event }) => void (report[name].outcome = event.outcome ?? null),
    onRunErrorEvent: ({ event }) => void (report[name].error = event.message),
  };
}

const agent = new HttpAgent({ url, threadId: "typescript-1" });
agent.setMessages([{ id: "u1", role: "user", content: "注文A-17は?" }]);
await agent.runAgent({ runId: "r1" }, watch("tool"));
report.tool.messages = agent.messages;
report.tool.state = agent.state;

agent.addMessage({ id: "u2", role: "user", content: "refund 5" });
await agent.runAgent({ runId: "r2" }, watch("paused"));

const [interrupt] = report.paused.outcome.interrupts;
const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }];
await agent.runAgent({ runId: "r3", resume }, watch("resumed"));
report.resumed.messages = agent.messages;

const fresh = new HttpAgent({ url, threadId: "typescript-1" });
await fresh.runAgent({ runId: "r4" }, watch("history"));
report.history.messages = fresh.messages;

console.log(JSON.stringify(report));
