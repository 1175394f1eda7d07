// What may be done to a job, each after a question.

import { openForm } from "./dialog.js";
import { element } from "./elements.js";
import { profileButton } from "./flame.js";
import { post } from "./rest.js";

const ACTIONS = [
  {
    name: "savepoint",
    label: "Take a savepoint",
    question: "A savepoint is taken, and the job goes on.",
    directory: true,
  },
  {
    name: "stop",
    label: "Stop with a savepoint",
    question: "All up to the savepoint is committed, and nothing after it. The job can go on from there.",
    directory: true,
    drain: true,
  },
  {
    name: "rescale",
    label: "Rescale",
    question: "A checkpoint is taken, and the job goes on from it with another parallelism. It stands still meanwhile.",
    parallelism: true,
  },
  {
    name: "cancel",
    label: "Cancel",
    question: "The job stops as it is. It can go on from its last checkpoint, if it has a checkpoint directory.",
    dangerous: true,
  },
];

export function actions(job, done) {
  return element("div", { class: "actions" }, ACTIONS.map((action) =>
    element("button", {
      type: "button",
      class: action.dangerous ? "dangerous" : null,
      onclick: () => asked(action, job, done),
    }, action.label)), profileButton(job));
}

function asked(action, job, done) {
  const directory = element("input", { type: "text", name: "directory", placeholder: "its checkpoint directory" });
  const drain = element("input", { type: "checkbox", name: "drain" });
  const parallelism = element("input", { type: "number", name: "parallelism", min: "1", step: "1", required: true });
  const fields = [
    element("p", {}, action.question),
    action.directory ? element("label", {}, "Below which folder or URL", directory) : null,
    action.parallelism ? element("label", {}, "Parallelism", parallelism) : null,
    action.drain ? element("label", { class: "check" }, drain, "End the input first, so that all windows fire") : null,
  ];
  openForm({ "aria-label": action.label }, `${action.label}: ${job.name}`, fields, {
    go: element("button", { type: "submit", class: action.dangerous ? "dangerous" : "main" }, action.label),
    leave: "Leave it",
    work: async (close) => {
      const body = {};
      if (action.directory && directory.value.trim()) body.directory = directory.value.trim();
      if (action.drain) body.drain = drain.checked;
      if (action.parallelism) body.parallelism = parallelism.valueAsNumber;
      const answer = await post(`/jobs/${job.key}/${action.name}`, body);
      close();
      done(said(action, answer, job, body));
    },
  });
}

function said(action, answer, job, body) {
  if (answer.directory) return `Savepoint: ${answer.directory}`;
  return action.parallelism ? `${job.name} runs with parallelism ${body.parallelism}` : `${job.name} has stopped`;
}
