// The tab of events: what happened to the job, and what followed, the newest first.

import { at, element, table } from "./elements.js";
import { show } from "./inplace.js";
import { continued, duration } from "./text.js";

const EVERY_MS = 3000;

export const eventsTab = {
  id: "events",
  label: "Events",
  open(place, page, signal) {
    let events = null;
    let problem = null;
    let opened = new Set();
    const draw = () => show(place,
      problem ? element("p", {}, problem) : null,
      events === null ? null : eventsTable(events, opened, (id) => {
        opened = toggled(opened, id);
        draw();
      }));
    page.poll("event-log", EVERY_MS, signal, (data, refused) => {
      events = data ?? events;
      problem = refused?.message ?? null;
      draw();
    });
    return () => {};
  },
};

function toggled(set, id) {
  const next = new Set(set);
  if (!next.delete(id)) next.add(id);
  return next;
}

function eventsTable(events, opened, toggle) {
  if (!events.length) return element("p", {}, "Nothing has happened yet.");
  return table([
    { heading: "time", cell: (one) => at(Date.parse(one.at)) },
    { heading: "took", number: true, cell: (one) => (one.ongoing ? `${duration(one.duration_ms)} so far` : duration(one.duration_ms)) },
    { heading: "kind", cell: (one) => element("span", { class: `level ${one.level}` }, one.kind.replaceAll("_", " ")) },
    { heading: "event", wide: true, cell: (one) => described(one, opened.has(one.id), () => toggle(one.id)) },
  ], events, { caption: "Newest first, times in UTC", key: (one) => one.id, row: (one) => ({ class: `event ${one.level}` }) });
}

function described(one, isOpen, toggle) {
  const where = [one.operator, one.subtask === null || one.subtask === undefined ? null : `subtask ${one.subtask}`,
    one.attempt ? `attempt ${one.attempt}` : null, one.driver || null].filter((part) => part).join(", ");
  return [
    element("p", {}, one.text),
    where ? element("p", { class: "quiet" }, where) : null,
    one.detail ? element("button", {
      type: "button", class: "small", "aria-expanded": isOpen ? "true" : "false", onclick: toggle,
    }, isOpen ? "Hide the details" : "Show the details") : null,
    isOpen ? element("pre", {}, continued(one.detail)) : null,
  ];
}
