// The tab of operators: all of them with their flow, the chosen one with its subtasks, channels and
// counters, and the slots of the job.

import { element, table } from "./elements.js";
import { show } from "./inplace.js";
import { jobAddress } from "./route.js";
import { ago, count, duration, inUnit, share, size } from "./text.js";

export const operatorsTab = {
  id: "operators",
  label: "Operators",
  open(place, page) {
    const [chosen, all, slots] = ["operator-place", "operators", "slots"].map((name) => element("section", { class: name }));
    place.replaceChildren(chosen, all, slots);
    return () => {
      const { plan, metrics, operator } = page;
      if (plan === null) {
        show(all, element("p", {}, page.job?.runs === false
          ? "The job does not run: only a running job has its operators." : "Looking for the plan."));
        return;
      }
      show(chosen, operator === null ? null : operatorPanel(plan, metrics, operator, page.key));
      show(all, operatorsTable(plan, metrics, page.key, operator));
      show(slots, slotsTable(metrics));
    };
  },
};

function operatorsTable(plan, metrics, key, chosen) {
  const rows = plan.chains.flatMap((chain) => chain.operators.map((operator) => ({ chain, operator })));
  const at = ({ operator }) => ({ operator: operator.id });
  const time = (part) => ({ chain }) => share(metrics.shares(chain.id)?.[part]);
  return table([
    {
      heading: "operator", wide: true,
      cell: ({ operator }) => element("a", { href: jobAddress(key, "operators", operator.id), class: "name" }, operator.name),
    },
    { heading: "subtasks", number: true, cell: ({ chain }) => chain.subtasks },
    { heading: "rows in/s", number: true, cell: (r) => count(metrics.perSecond("rows_in", at(r))) },
    { heading: "rows out/s", number: true, cell: (r) => count(metrics.perSecond("rows_out", at(r))) },
    { heading: "busy", number: true, cell: time("busy") },
    { heading: "blocked", number: true, cell: time("held") },
    { heading: "watermark lag", number: true, cell: (r) => duration(metrics.most("watermark_lag_ms", at(r))) },
    { heading: "state", number: true, cell: (r) => size(metrics.total("state_bytes", at(r))) },
    { heading: "keys", number: true, cell: (r) => count(metrics.total("keys", at(r))) },
    { heading: "records behind", number: true, cell: (r) => count(metrics.total("source_lag_rows", at(r))) },
    { heading: "last publication", number: true, cell: (r) => ago(metrics.most("since_published_ms", at(r))) },
  ], rows, {
    caption: "Operators",
    key: ({ operator }) => operator.id,
    row: ({ operator }) => ({ "aria-current": operator.id === chosen ? "true" : null }),
  });
}

function operatorPanel(plan, metrics, id, key) {
  const chain = plan.chains.find((each) => each.operators.some((operator) => operator.id === id));
  if (!chain) return element("p", {}, `The running plan has no operator ${id}.`);
  const operator = chain.operators.find((each) => each.id === id);
  const outputs = Object.entries(operator.outputs).map(([tag, columns]) =>
    element("p", {}, `${tag === "" ? "emits" : `emits ${tag}`}: `, element("code", {}, columns)));
  return element("section", { class: "panel", "aria-label": operator.name, "data-key": id },
    element("div", { class: "row" },
      element("h2", {}, operator.name),
      element("a", { href: jobAddress(key, "operators"), class: "button" }, "Close")),
    element("p", {}, element("code", {}, operator.id), " written at ", element("code", {}, operator.site)),
    operator.note ? element("p", {}, operator.note) : null,
    outputs,
    subtasksTable(metrics, chain, operator),
    channelsTable(plan, metrics, chain),
    countersTable(metrics, operator));
}

function subtasksTable(metrics, chain, operator) {
  const at = (subtask) => ({ operator: operator.id, subtask });
  const timeOf = (subtask, metric) => {
    const rate = metrics.perSecond(metric, { chain: chain.id, subtask });
    return share(rate === null ? null : rate / 1000);
  };
  const columns = [
    { heading: "subtask", number: true, cell: (subtask) => subtask },
    { heading: "rows in", number: true, cell: (s) => count(metrics.total("rows_in", at(s))) },
    { heading: "in/s", number: true, cell: (s) => count(metrics.perSecond("rows_in", at(s))) },
    { heading: "rows out", number: true, cell: (s) => count(metrics.total("rows_out", at(s))) },
    { heading: "out/s", number: true, cell: (s) => count(metrics.perSecond("rows_out", at(s))) },
    { heading: "busy", number: true, cell: (s) => timeOf(s, "busy_ms") },
    { heading: "blocked", number: true, cell: (s) => timeOf(s, "backpressured_ms") },
    { heading: "watermark lag", number: true, cell: (s) => duration(metrics.most("watermark_lag_ms", at(s))) },
    { heading: "state", number: true, cell: (s) => size(metrics.total("state_bytes", at(s))) },
    { heading: "keys", number: true, cell: (s) => count(metrics.total("keys", at(s))) },
    { heading: "records behind", number: true, cell: (s) => count(metrics.total("source_lag_rows", at(s))) },
  ];
  const found = metrics.subtasks({ operator: operator.id });
  return found.length ? table(columns, found, { caption: "Subtasks", key: (subtask) => subtask }) : null;
}

function channelsTable(plan, metrics, chain) {
  const rows = plan.edges
    .filter((edge) => edge.source === chain.id || edge.target === chain.id)
    .flatMap((edge) => metrics.subtasks({ edge: edge.id }).map((subtask) => ({ edge, subtask })));
  if (!rows.length) return null;
  const nameOf = (id) => plan.chains.find((each) => each.id === id)?.operators.map((each) => each.name).join(" > ") ?? id;
  const at = ({ edge, subtask }) => ({ edge: edge.id, subtask });
  const columns = [
    { heading: "from", wide: true, cell: ({ edge }) => nameOf(edge.source) },
    { heading: "to", wide: true, cell: ({ edge }) => nameOf(edge.target) },
    { heading: "exchange", cell: ({ edge }) => [edge.exchange, ...edge.keys].join(" ") },
    { heading: "subtask", number: true, cell: ({ subtask }) => subtask },
    { heading: "rows sent/s", number: true, cell: (r) => count(metrics.perSecond("sent_rows", at(r))) },
    { heading: "bytes sent/s", number: true, cell: (r) => size(metrics.perSecond("sent_bytes", at(r))) },
    { heading: "rows received/s", number: true, cell: (r) => count(metrics.perSecond("received_rows", at(r))) },
    { heading: "rows waiting", number: true, cell: (r) => count(metrics.total("buffered_rows", at(r))) },
    { heading: "credits used", number: true, cell: (r) => count(metrics.total("credits_used", at(r))) },
    { heading: "batches queued", number: true, cell: (r) => count(metrics.total("queued_batches", at(r))) },
  ];
  return table(columns, rows, {
    caption: "Channels of its chain", key: ({ edge, subtask }) => `${edge.id} ${subtask}`,
  });
}

function countersTable(metrics, operator) {
  const rows = ["counter", "gauge", "accumulated"].flatMap((metric) => {
    const readings = metrics.readings(metric, { operator: operator.id });
    return [...new Set(readings.map((reading) => reading.name))].map((name) => ({ metric, name }));
  });
  if (!rows.length) return null;
  const value = ({ metric, name }) => {
    const labels = { operator: operator.id, name };
    if (metric === "gauge") return inUnit("", metrics.most(metric, labels));
    if (metric === "counter") return count(metrics.total(metric, labels));
    return metrics.readings(metric, labels).map((r) => `${count(r.n)} of mean ${count(r.mean)}`).join("; ");
  };
  const columns = [
    { heading: "name", wide: true, cell: ({ name }) => name },
    { heading: "kind", cell: ({ metric }) => metric },
    { heading: "value", number: true, cell: value },
  ];
  return table(columns, rows, {
    caption: "Counters of the operator and the program", key: ({ metric, name }) => `${metric} ${name}`,
  });
}

function slotsTable(metrics) {
  const slots = metrics.subtasks({}, "memory_bytes");
  if (!slots.length) return null;
  const part = (metric) => (slot) => {
    const rate = metrics.perSecond(metric, { subtask: slot });
    return share(rate === null ? null : rate / 1000);
  };
  const ms = (metric) => (slot) => duration(metrics.total(metric, { subtask: slot }));
  return table([
    { heading: "slot", number: true, cell: (slot) => slot },
    { heading: "busy", number: true, cell: part("slot_busy_ms") },
    { heading: "blocked", number: true, cell: part("slot_backpressured_ms") },
    { heading: "processor", number: true, cell: part("cpu_ms") },
    { heading: "garbage collector", number: true, cell: part("gc_ms") },
    { heading: "memory", number: true, cell: (slot) => size(metrics.total("memory_bytes", { subtask: slot })) },
    { heading: "checkpoint: processing stopped", number: true, cell: ms("checkpoint_sync_ms") },
    { heading: "aligned", number: true, cell: ms("checkpoint_align_ms") },
    { heading: "written in", number: true, cell: ms("checkpoint_async_ms") },
  ], slots, { caption: "Slots", key: (slot) => slot });
}
