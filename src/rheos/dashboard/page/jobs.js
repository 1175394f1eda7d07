// The list of jobs.

import { element, table } from "./elements.js";
import { listen } from "./rest.js";
import { count, inUnit } from "./text.js";

export async function showJobs(view, signal, notice) {
  const place = element("div", {}, element("p", {}, "Looking for jobs."));
  view.replaceChildren(element("h1", {}, "Jobs"), place);
  await listen("/events", signal, (kind, data) => {
    if (kind === "problem") return notice(data);
    notice(null);
    place.replaceChildren(data.length ? listed(data) : element("p", {}, "No jobs are running."));
    return undefined;
  });
}

function listed(jobs) {
  return table([
    { heading: "name", cell: (job) => element("a", { href: `#/job/${job.key}` }, job.name) },
    { heading: "state", cell: (job) => state(job) },
    { heading: "parallelism", number: true, cell: (job) => job.parallelism },
    { heading: "uptime", number: true, cell: (job) => inUnit("s", job.uptime_s) },
    { heading: "rows/s", number: true, cell: (job) => count(job.records_per_s) },
    { heading: "checkpoints", number: true, cell: (job) => checkpoints(job) },
    { heading: "restarts", number: true, cell: (job) => count(job.restarts) },
    { heading: "checkpoint directory", cell: (job) => job.checkpoint_dir },
  ], jobs);
}

function checkpoints(job) {
  const failed = job.checkpoints_failed ? ` (${count(job.checkpoints_failed)} failed)` : "";
  return `${count(job.checkpoints_completed)}${failed}`;
}

export function state(job) {
  const said = job.state ?? job.problem;
  return element("span", { class: `state ${said.replaceAll(" ", "-")}` }, said);
}
