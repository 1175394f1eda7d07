// The tab of what matters first: facts, findings, the graph, and the metrics over time.

import { element } from "./elements.js";
import { findingsList } from "./health.js";
import { graph, graphLegend } from "./graph.js";
import { show } from "./inplace.js";
import { checkpoints, lag } from "./jobs.js";
import { jobAddress } from "./route.js";
import { ago, count, duration, inUnit, moment } from "./text.js";
import { LOAD, timelines } from "./timelines.js";

export const overviewTab = {
  id: "overview",
  label: "Overview",
  open(place, page, signal) {
    const [facts, findings, failure, drawing, lines] = ["facts-place", "findings-place", "failure", "graph", "lines"]
      .map((name) => element("section", { class: name }));
    place.replaceChildren(facts, findings, failure, drawing, lines);
    const named = timelines(lines, page, LOAD, signal);
    const draw = () => {
      if (page.job === null) return;
      named();
      show(facts, factsOf(page));
      show(findings, findingsList(page.health, page.key));
      show(failure, page.job.failure ? [element("h2", {}, "Last error"), element("pre", {}, page.job.failure)] : null);
      if (page.plan === null) return;
      const choose = (id) => { location.hash = jobAddress(page.key, "operators", id); };
      show(drawing, element("div", { class: "scrolls" },
        graph(page.plan, page.metrics, choose, place.clientWidth)), graphLegend());
    };
    addEventListener("resize", draw, { signal });
    return draw;
  },
};

function factsOf({ job, metrics }) {
  const published = metrics.most("since_published_ms");
  const facts = [
    ["rows/s", count(job.records_per_s)],
    ["lag", lag({ source_lag_rows: metrics.total("source_lag_rows"), source_lag_ms: metrics.most("source_lag_ms") })],
    ["last publication", ago(published)],
    ["watermark", moment(job.watermark_ms)],
    ["checkpoints", job.checkpoints_completed === undefined ? null : checkpoints(job)],
    ["last checkpoint took", duration(job.last_checkpoint_ms)],
    ["restarts", job.restarts],
    ["causes of restarts", metrics.readings("restarts").map((one) => `${one.cause} (${count(one.value)})`).join(", ")],
    ["attempt", job.attempt],
    ["uptime", inUnit("s", job.uptime_s)],
    ["parallelism", job.parallelism],
    ["runtime", job.runtime],
    ["started", moment(job.started_ms)],
    ["ended", moment(job.ended_ms)],
    ["process", job.pid ? `${job.pid} on ${job.host}` : null],
    ["checkpoint directory", job.checkpoint_dir],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", { class: "facts" }, facts.map(([name, value]) =>
    element("div", { "data-key": name }, element("dt", {}, name), element("dd", {}, String(value)))));
}
