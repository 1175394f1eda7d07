// Where a subtask spends its time: its stacks as a flame graph. A click on a frame makes it the widest.

import { openForm } from "./dialog.js";
import { drawn, element } from "./elements.js";
import { post } from "./rest.js";

const ROW = 18;
const LEAST = 0.002; // Of the width: narrower frames are not drawn.

// The stacks as a tree; `stacks` are { "outer;inner": times }.
export function tree(stacks) {
  const root = { name: "all", times: 0, below: new Map() };
  for (const [stack, times] of Object.entries(stacks)) {
    let at = root;
    at.times += times;
    for (const name of stack.split(";")) {
      if (!at.below.has(name)) at.below.set(name, { name, times: 0, below: new Map() });
      at = at.below.get(name);
      at.times += times;
    }
  }
  return root;
}

export function flame(root) {
  const place = element("div", { class: "flame" });
  const show = (top) => {
    const frames = [];
    const depth = lay(top, 0, 1, 0, frames);
    const whole = element("button", { type: "button", onclick: () => show(root) }, "Show all");
    whole.disabled = top === root;
    place.replaceChildren(whole, drawn("svg", { width: "100%", height: depth * ROW, role: "group" },
      frames.map((frame) => drawnFrame(frame, root.times, show))));
  };
  show(root);
  return place;
}

// Puts the frames that are wide enough into `frames`; gives how many rows they take.
function lay(node, left, width, row, frames) {
  frames.push({ node, left, width, row });
  let depth = row + 1;
  let at = left;
  for (const below of [...node.below.values()].sort((a, b) => b.times - a.times)) {
    const own = width * below.times / node.times;
    if (own >= LEAST) depth = Math.max(depth, lay(below, at, own, row + 1, frames));
    at += own;
  }
  return depth;
}

function drawnFrame({ node, left, width, row }, all, show) {
  const percent = (part) => `${(part * 100).toFixed(3)}%`;
  const said = `${node.name}: ${node.times} of ${all} samples`;
  return drawn("svg", {
    x: percent(left), width: percent(width), y: row * ROW, height: ROW,
    class: "frame", tabindex: "0", role: "button", "aria-label": said,
    onclick: () => show(node),
    onkeydown: (event) => { if (event.key === "Enter") show(node); },
  },
  drawn("title", {}, said),
  drawn("rect", { width: "100%", height: ROW - 1 }),
  drawn("text", { x: 3, y: ROW - 5 }, node.name));
}

export function profileButton(job) {
  return element("button", { type: "button", onclick: () => asked(job) }, "Profile a subtask");
}

function asked(job) {
  const subtask = element("input", { type: "number", name: "subtask", min: "0", step: "1", value: "0", required: true });
  const seconds = element("input", { type: "number", name: "seconds", min: "1", max: "600", step: "1", value: "5", required: true });
  const fields = element("div", { class: "row" },
    element("label", {}, "Subtask ", subtask), element("label", {}, "Seconds ", seconds));
  const found = element("div", {});
  openForm({ class: "wide", "aria-label": "Profile a subtask" },
    `Where a subtask of ${job.name} spends its time`, fields, {
      go: element("button", { type: "submit", class: "main" }, "Profile"),
      leave: "Close",
      work: async () => {
        const body = { subtask: subtask.valueAsNumber, seconds: seconds.valueAsNumber };
        const profile = await post(`/jobs/${encodeURIComponent(job.key)}/profile`, body);
        found.replaceChildren(flame(tree(profile.stacks)));
      },
      after: found,
    });
}
