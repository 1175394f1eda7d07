// What may be done to a job. A dialog asks before anything is done.

import { openForm } from "./dialog.js";
import { element } from "./elements.js";
import { profileButton } from "./flame.js";
import { post } from "./rest.js";

const ACTIONS = [
  {
    name: "savepoint",
    label: "Take a savepoint",
    heading: (job) => `Take a savepoint of ${job}?`,
    question: "The job continues meanwhile.",
    leave: "Close",
    directory: true,
  },
  {
    name: "stop",
    label: "Stop with a savepoint",
    heading: (job) => `Stop ${job} with a savepoint?`,
    question: "Everything up to the savepoint is published, and nothing after it. The job can continue from there.",
    leave: "Keep it running",
    directory: true,
    drain: true,
  },
  {
    name: "rescale",
    label: "Rescale",
    heading: (job) => `Rescale ${job}?`,
    question: "The job takes a checkpoint, and continues from it with another parallelism. Processing stops meanwhile.",
    leave: "Close",
    parallelism: true,
  },
  {
    name: "cancel",
    label: "Cancel the job",
    heading: (job) => `Cancel ${job}?`,
    question: "The job stops at once. What it has done since its last checkpoint is not published. "
      + "It can continue from that checkpoint, if it has a checkpoint directory.",
    leave: "Keep it running",
    dangerous: true,
  },
];

// Returns the buttons. `waits()` returns what the job waits for at the moment, and `done(said)` is called
// with the outcome of an action.
export function actions(job, waits, done) {
  return element("div", { class: "actions" }, ACTIONS.map((action) =>
    element("button", {
      type: "button",
      class: action.dangerous ? "dangerous" : null,
      "data-key": action.name,
      onclick: () => ask(action, job, waits, done),
    }, action.label)), profileButton(job));
}

function ask(action, job, waits, done) {
  const directory = element("input", { type: "text", name: "directory", placeholder: "the job's checkpoint directory" });
  const drain = element("input", { type: "checkbox", name: "drain" });
  const parallelism = element("input", { type: "number", name: "parallelism", min: "1", step: "1", required: true });
  const fields = [
    element("p", {}, action.question),
    action.directory ? element("label", {}, "Folder or URL for it", directory) : null,
    action.parallelism ? element("label", {}, "Parallelism", parallelism) : null,
    action.drain ? element("label", { class: "check" }, drain, "End the input first, so that all windows fire") : null,
  ];
  openForm({ "aria-label": action.label }, action.heading(job.name), fields, {
    go: element("button", { type: "submit", class: action.dangerous ? "dangerous" : "main" }, action.label),
    leave: action.leave,
    careful: action.dangerous,
    progress: waits,
    work: async (close) => {
      const body = {};
      if (action.directory && directory.value.trim()) body.directory = directory.value.trim();
      if (action.drain) body.drain = drain.checked;
      if (action.parallelism) body.parallelism = parallelism.valueAsNumber;
      const answer = await post(`/jobs/${encodeURIComponent(job.key)}/${action.name}`, body);
      close();
      done(said(action, answer, job, body));
    },
  });
}

function said(action, answer, job, body) {
  if (answer.directory) return `Savepoint: ${answer.directory}`;
  return action.parallelism ? `${job.name} runs with parallelism ${body.parallelism}` : `${job.name} was cancelled`;
}
