// The tab of checkpoints: those that are retained, what each has cost, and their metrics over time.

import { at, element, table } from "./elements.js";
import { show } from "./inplace.js";
import { duration, size } from "./text.js";
import { CHECKPOINTS, timelines } from "./timelines.js";

const EVERY_MS = 5000;

export const checkpointsTab = {
  id: "checkpoints",
  label: "Checkpoints",
  open(place, page, signal) {
    const [list, lines] = ["list", "lines"].map((name) => element("section", { class: name }));
    place.replaceChildren(list, lines);
    timelines(lines, page, CHECKPOINTS, signal);
    let problem = null;
    let kept = null;
    const draw = () => show(list, failureOf(page.job),
      problem ? element("p", {}, problem) : kept === null ? null : checkpointsTable(kept));
    page.poll("checkpoints", EVERY_MS, signal, (data, refused) => {
      kept = data ?? kept;
      problem = refused?.message ?? null;
      draw();
    });
    return draw;
  },
};

function failureOf(job) {
  if (!job?.checkpoint_failure) return null;
  return [element("h2", {}, "The newest checkpoint has failed"), element("pre", {}, job.checkpoint_failure)];
}

function checkpointsTable(kept) {
  if (!kept.length) return element("p", {}, "No checkpoint is retained yet.");
  return table([
    { heading: "checkpoint", number: true, cell: (one) => String(one.checkpoint) },
    { heading: "completed", cell: (one) => at(one.completed_ms) },
    { heading: "took", number: true, cell: (one) => duration(one.duration_ms) },
    { heading: "processing stopped", number: true, cell: (one) => duration(one.sync_us / 1000) },
    { heading: "aligned", number: true, cell: (one) => (one.unaligned ? "unaligned" : duration(one.align_us / 1000)) },
    { heading: "written", number: true, cell: (one) => size(one.written_bytes) },
    { heading: "state", number: true, cell: (one) => size(one.state_bytes) },
    { heading: "savepoint", wide: true, cell: (one) => one.savepoint },
  ], [...kept].reverse(), { caption: "Retained checkpoints, newest first", key: (one) => one.checkpoint });
}
