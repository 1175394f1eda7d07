// The list of jobs.

import { at, element, table } from "./elements.js";
import { healthBadge, healthOfAll } from "./health.js";
import { show } from "./inplace.js";
import { listen } from "./rest.js";
import { jobAddress } from "./route.js";
import { ago, count, counted, duration, inUnit } from "./text.js";

export async function showJobs(view, signal, notice) {
  show(view, element("h1", {}, "Jobs"), element("p", {}, "Looking for jobs."));
  await listen("/events", signal, (kind, data) => {
    if (kind === "problem") return notice(data);
    notice(null);
    const running = data.filter((job) => job.runs);
    const ended = data.filter((job) => !job.runs);
    show(view,
      element("h1", {}, "Jobs"),
      running.length ? healthOfAll(running) : null,
      running.length ? runningTable(running) : element("p", {}, "No jobs are running."),
      ended.length ? endedTable(ended) : null);
    return undefined;
  });
}

// Rows are in the order of names, so that they stay where they are while their numbers change.
function ordered(jobs) {
  const order = (one, two) => (one < two ? -1 : one > two ? 1 : 0);
  return [...jobs].sort((one, two) => order(one.name, two.name) || order(one.key, two.key));
}

const name = {
  heading: "name", wide: true,
  cell: (job) => element("a", { href: jobAddress(job.key), class: "name", title: job.name }, job.name),
};

function runningTable(jobs) {
  return table([
    name,
    { heading: "health", cell: (job) => healthBadge(job.health) },
    { heading: "state", cell: (job) => state(job) },
    { heading: "lag", number: true, cell: lag },
    { heading: "rows/s", number: true, cell: (job) => count(job.records_per_s) },
    { heading: "last publication", number: true, cell: (job) => ago(job.since_published_ms) },
    { heading: "uptime", number: true, cell: (job) => inUnit("s", job.uptime_s) },
    { heading: "parallelism", number: true, cell: (job) => job.parallelism },
    { heading: "checkpoints", number: true, cell: (job) => checkpoints(job) },
    { heading: "restarts", number: true, cell: (job) => count(job.restarts) },
    { heading: "checkpoint directory", wide: true, cell: (job) => job.checkpoint_dir },
  ], ordered(jobs), { key: (job) => job.key, row: () => ({ class: "job" }) });
}

function endedTable(jobs) {
  return table([
    name,
    { heading: "state", cell: (job) => state(job) },
    { heading: "started", cell: (job) => at(job.started_ms) },
    { heading: "ended", cell: (job) => at(job.ended_ms) },
    { heading: "checkpoint directory", wide: true, cell: (job) => job.checkpoint_dir },
  ], jobs, { key: (job) => job.key, caption: "Jobs that do not run here", row: () => ({ class: "job" }) });
}

// How far a job is behind: in records where its sources can say, else in event time.
export function lag(job) {
  if (job.source_lag_rows !== null && job.source_lag_rows !== undefined) return counted(job.source_lag_rows, "record");
  return duration(job.source_lag_ms);
}

export function checkpoints(job) {
  const failed = job.checkpoints_failed ? ` (${count(job.checkpoints_failed)} failed)` : "";
  return `${count(job.checkpoints_completed)}${failed}`;
}

export function state(job) {
  const said = job.state ?? job.problem ?? "unknown";
  return element("span", { class: `state ${said.replaceAll(" ", "-")}` }, said);
}
