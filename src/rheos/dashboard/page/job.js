// One job: its graph, its figures over time, its checkpoints, what went wrong, and what may be done.

import { actions } from "./actions.js";
import { element, table } from "./elements.js";
import { Figures } from "./figures.js";
import { graph } from "./graph.js";
import { state } from "./jobs.js";
import { operatorPanel } from "./operator.js";
import { get, listen } from "./rest.js";
import { continued, count, duration, inUnit, moment, share, size } from "./text.js";
import { timelines } from "./timelines.js";

const CHECKPOINTS_EVERY_MS = 5000;
const LOG_EVERY_MS = 3000;

export async function showJob(view, key, signal, notice) {
  const part = (name) => element("section", { class: name });
  const parts = {
    head: part("head"), findings: part("findings"), failure: part("failure"), graph: part("graph"), operator: part("operator-place"),
    lines: part("lines"), slots: part("slots"), checkpoints: part("checkpoints"), log: part("log"), story: part("story"),
  };
  view.replaceChildren(...Object.values(parts));
  const seen = { plan: null, figures: new Figures(null), chosen: null, job: null };

  const draw = () => {
    if (!seen.plan) return;
    const within = parts.graph.contains(document.activeElement) ? document.activeElement.dataset.operator : null;
    const scrolled = parts.graph.firstElementChild?.scrollLeft ?? 0;
    parts.graph.replaceChildren(
      element("div", { class: "scrolls" }, graph(seen.plan, seen.figures, seen.chosen, choose)), legend());
    parts.graph.firstElementChild.scrollLeft = scrolled;
    if (within) parts.graph.querySelector(`[data-operator="${CSS.escape(within)}"]`)?.focus();
    const panel = seen.chosen ? operatorPanel(seen.plan, seen.figures, seen.chosen, () => choose(null)) : null;
    parts.operator.replaceChildren(...(panel ? [panel] : []));
  };
  const choose = (id) => {
    seen.chosen = id === seen.chosen ? null : id;
    draw();
  };
  const showPlan = async () => {
    seen.plan = await get(`/jobs/${key}/plan`, signal);
    const names = new Map(seen.plan.chains.flatMap((chain) => chain.operators.map((o) => [o.id, o.name])));
    timelines(parts.lines, key, names, signal);
    storyOf(parts.story, key, signal);
    settingsOf(parts.story, key, signal);
  };
  const again = async () => {
    try {
      parts.checkpoints.replaceChildren(checkpointsTable(await get(`/jobs/${key}/checkpoints`, signal)));
    } catch {
      // What is wrong is said by the events.
    }
    if (!signal.aborted) setTimeout(again, CHECKPOINTS_EVERY_MS);
  };
  again();
  logOf(parts.log, key, signal);
  await listen(`/jobs/${key}/events`, signal, async (kind, data) => {
    if (kind === "problem") {
      if (data.what?.startsWith("there is no job")) ended(parts, seen.job);
      return notice(data);
    }
    notice(null);
    seen.job = data.job;
    seen.figures = new Figures(data.figures);
    headOf(parts.head, data.job, (said) => notice({ what: said }));
    findingsOf(parts.findings, data.job.health?.findings ?? [], seen.chosen, choose);
    failureOf(parts.failure, data.job, seen.figures);
    slotsOf(parts.slots, seen.figures);
    if (data.job.runs && !seen.plan) {
      try {
        await showPlan();
      } catch (error) {
        notice({ what: error.message, hint: error.hint });
      }
    } else if (!data.job.runs && !parts.lines.children.length) {
      timelines(parts.lines, key, new Map(), signal);
    }
    draw();
    return undefined;
  });
}

function checkpointsSaid(job) {
  const failed = job.checkpoints_failed ? ` (${count(job.checkpoints_failed)} failed)` : "";
  return `${count(job.checkpoints_completed)}${failed}`;
}

function ended(parts, job) {
  if (!job) return;
  parts.head.querySelector(".state")?.replaceWith(element("span", { class: "state" }, "has ended"));
  parts.head.querySelector(".actions")?.remove();
}

function headOf(place, job, done) {
  const facts = [
    ["parallelism", job.parallelism], ["attempt", job.attempt],
    ["uptime", inUnit("s", job.uptime_s)],
    ["rows/s", count(job.records_per_s)], ["restarts", job.restarts],
    ["checkpoints", checkpointsSaid(job)],
    ["last checkpoint", duration(job.last_checkpoint_ms)],
    ["watermark", moment(job.watermark_ms)], ["runtime", job.runtime],
    ["process", job.pid ? `${job.pid} on ${job.host}` : null], ["checkpoint directory", job.checkpoint_dir],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  const list = element("dl", { class: "facts" }, facts.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, String(value)))));
  const title = element("div", { class: "row" }, element("h1", {}, job.name), state(job));
  if (place.querySelector("h1")) {
    place.querySelector(".row").replaceWith(title);
    place.querySelector("dl").replaceWith(list);
  } else {
    place.replaceChildren(title, job.runs ? actions(job, done) : "", list);
  }
}

// What stands out, the gravest first; one that is about an operator leads to it.
function findingsOf(place, findings, chosen, choose) {
  if (!findings.length) return place.replaceChildren();
  const within = place.contains(document.activeElement) ? document.activeElement.dataset.at : null;
  place.replaceChildren(element("h2", {}, "What stands out"), element("ul", {}, findings.map((one, at) =>
    element("li", { class: `finding ${one.kind}` },
      element("p", {}, one.what),
      element("p", { class: "look" }, one.what_to_do),
      one.operator ? element("button", {
        type: "button", "data-at": at, onclick: () => { if (one.operator !== chosen) choose(one.operator); },
      }, "Show the operator") : null))));
  if (within !== null) place.querySelector(`[data-at="${within}"]`)?.focus();
  return undefined;
}

function failureOf(place, job, figures) {
  const causes = figures.readings("restarts");
  place.replaceChildren(
    ...(job.failure ? [element("h2", {}, "What went wrong last"), element("pre", {}, job.failure)] : []),
    ...(causes.length ? [table([
      { heading: "restarts because of", cell: (reading) => reading.cause },
      { heading: "times", number: true, cell: (reading) => count(reading.value) },
    ], causes)] : []));
}

function slotsOf(place, figures) {
  const slots = [...new Set(figures.readings("memory_bytes").map((reading) => reading.subtask))];
  if (!slots.length) return place.replaceChildren();
  const part = (figure) => (slot) => {
    const rate = figures.perSecond(figure, { subtask: slot });
    return share(rate === null ? null : rate / 1000);
  };
  const ms = (figure) => (slot) => duration(figures.total(figure, { subtask: slot }));
  return place.replaceChildren(table([
    { heading: "subtask", cell: (slot) => slot },
    { heading: "busy", number: true, cell: part("slot_busy_ms") },
    { heading: "held up", number: true, cell: part("slot_backpressured_ms") },
    { heading: "processor", number: true, cell: part("cpu_ms") },
    { heading: "garbage collector", number: true, cell: part("gc_ms") },
    { heading: "memory", number: true, cell: (slot) => size(figures.total("memory_bytes", { subtask: slot })) },
    { heading: "checkpoint: stood still", number: true, cell: ms("checkpoint_sync_ms") },
    { heading: "aligned", number: true, cell: ms("checkpoint_align_ms") },
    { heading: "wrote", number: true, cell: ms("checkpoint_async_ms") },
  ], slots, { caption: "Slots" }));
}

function checkpointsTable(kept) {
  if (!kept.length) return element("p", {}, "No checkpoints are kept.");
  return table([
    { heading: "checkpoint", cell: (one) => String(one.checkpoint) },
    { heading: "completed", cell: (one) => moment(one.completed_ms) },
    { heading: "took", number: true, cell: (one) => duration(one.duration_ms) },
    { heading: "stood still", number: true, cell: (one) => duration(one.sync_us / 1000) },
    { heading: "aligned", number: true, cell: (one) => (one.unaligned ? "overtook" : duration(one.align_us / 1000)) },
    { heading: "wrote", number: true, cell: (one) => size(one.written_bytes) },
    { heading: "state", number: true, cell: (one) => size(one.state_bytes) },
    { heading: "savepoint", cell: (one) => one.savepoint },
  ], [...kept].reverse(), { caption: "Checkpoints that are kept" });
}

function settingsOf(place, key, signal) {
  const found = element("div");
  place.append(element("details", {
    ontoggle: async (event) => {
      if (!event.target.open) return;
      const settings = Object.entries(await get(`/jobs/${key}/settings`, signal));
      found.replaceChildren(table([
        { heading: "setting", cell: ([name]) => element("code", {}, name) },
        { heading: "value", cell: ([, value]) => element("code", {}, value) },
      ], settings));
    },
  }, element("summary", {}, "What it runs with"), found));
}

function storyOf(place, key, signal) {
  const lines = element("pre", { class: "long" });
  place.replaceChildren(element("details", {
    ontoggle: async (event) => {
      if (event.target.open) lines.textContent = (await get(`/jobs/${key}/story`, signal)).map(continued).join("\n");
    },
  }, element("summary", {}, "What has happened, and what was done about it"), lines));
}

function logOf(place, key, signal) {
  const lines = element("pre", { class: "long" });
  const details = element("details", { ontoggle: () => look() }, element("summary", {}, "What was logged"), lines);
  const look = async () => {
    if (!details.open || signal.aborted) return;
    try {
      const found = await get(`/jobs/${key}/logs`, signal);
      const below = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
      lines.textContent = found.map(logLine).join("\n") || "Nothing yet.";
      if (below) lines.scrollTop = lines.scrollHeight;
    } catch {
      // What is wrong is said by the events.
    }
    setTimeout(look, LOG_EVERY_MS);
  };
  place.replaceChildren(details);
}

function logLine(line) {
  const where = [line.operator, line.subtask === undefined ? "driver" : `subtask ${line.subtask}`];
  const said = `${line.time} ${line.level.toUpperCase().padEnd(7)} [${where.filter((part) => part).join(", ")}] ${line.message}`;
  return continued(line.error ? `${said}\n${line.error}` : said);
}

function legend() {
  return element("p", { class: "legend" },
    ...[["busy", "busy"], ["held", "held up: no credit to send"], ["idle", "idle"]].map(([kind, said]) =>
      element("span", {}, element("i", { class: kind }), said)));
}
