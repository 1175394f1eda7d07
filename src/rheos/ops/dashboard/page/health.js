// The health of a job: one line on top of its page, a badge in lists, and what has been found.

import { element } from "./elements.js";
import { jobAddress } from "./route.js";
import { duration, moment } from "./text.js";

const STATES = ["failing", "stuck", "degraded", "healthy"];
const UNKNOWN = "unknown";
const NOTE = "note";

// Position of a job's health from bad to good, for counting and sorting.
export function rankOf(job) {
  const at = STATES.indexOf(job.health?.state);
  return at < 0 ? STATES.length : at;
}

export function healthBadge(health) {
  const state = health?.state ?? UNKNOWN;
  return element("span", { class: `health ${STATES.includes(state) ? state : UNKNOWN}` }, state);
}

// "healthy", or the state, since when, what and what to do. `key` is that of the job.
export function healthLine(health, key) {
  const [gravest] = grave(health);
  return element("div", { class: `health-line ${health?.state ?? UNKNOWN}`, role: "status", "aria-label": "Health" },
    element("p", {}, healthBadge(health), " ", gravest ? gravest.what : said(health)),
    gravest ? element("p", { class: "quiet" }, saidOf(gravest)) : null,
    grave(health).length > 1
      ? element("p", {}, element("a", { href: jobAddress(key) }, `and ${grave(health).length - 1} more`)) : null);
}

// What the job waits for, such as a server: a sentence each, the longest wait first.
export function waitsOf(job) {
  return (job?.waits ?? []).map((wait) => `Waits since ${moment(wait.since_ms)}: ${wait.what}`);
}

function grave(health) {
  return (health?.findings ?? []).filter((finding) => finding.severity !== NOTE);
}

function said(health) {
  if (!health) return "The job has not told its health yet.";
  return health.state === "healthy" ? "Nothing to do." : since(health);
}

function saidOf(finding) {
  return [since(finding), finding.what_to_do ? `What to do: ${finding.what_to_do}` : ""].filter((part) => part).join(" ");
}

function since(of) {
  if (of.since_ms === undefined || of.since_ms === null) return "";
  return `Since ${moment(of.since_ms)}, for ${duration(of.for_ms)}.`;
}

// All findings, the gravest first; one that is about an operator has a link to it.
export function findingsList(health, key) {
  const found = health?.findings ?? [];
  if (!found.length) return null;
  return [element("h2", {}, "Findings"), element("ul", { class: "findings" }, found.map((one) =>
    element("li", { class: `finding ${one.severity} ${one.kind}`, "data-key": keyOf(one, found) },
      element("p", {}, element("span", { class: "kind" }, one.kind.replaceAll("_", " ")), " ", one.what),
      element("p", { class: "quiet" }, saidOf(one)),
      one.operator ? element("p", {}, element("a", {
        href: jobAddress(key, "operators", one.operator),
      }, "Show the operator")) : null)))];
}

// The same finding keeps its element while its numbers change.
function keyOf(one, all) {
  const name = (each) => [each.kind, each.operator, each.subtask, each.server].join(" ");
  const same = all.filter((each) => name(each) === name(one));
  return `${name(one)} ${same.indexOf(one)}`;
}

// One line for a list of jobs: how many are in which state.
export function healthOfAll(jobs) {
  const states = [...STATES, UNKNOWN].map((state) => [state, jobs.filter((job) => (job.health?.state ?? UNKNOWN) === state).length])
    .filter(([, number]) => number);
  const worst = states[0]?.[0] ?? UNKNOWN;
  return element("div", { class: `health-line ${worst}`, role: "status", "aria-label": "Health" },
    element("p", {}, states.map(([state, number], n) => [
      n ? ", " : "", element("span", { class: `health ${state}` }, `${number} ${state}`)])));
}
