// The tab of the log: the newest lines of the driver and the workers.

import { element } from "./elements.js";
import { continued } from "./text.js";

const EVERY_MS = 3000;
const LINES = 1000;
const LEVELS = ["debug", "info", "warning", "error"];

export const logsTab = {
  id: "logs",
  label: "Logs",
  open(place, page, signal) {
    const lines = element("pre", { class: "long", tabindex: 0, "aria-label": "Log" });
    const choice = (label, options, chosen) => element("select", { "aria-label": label, onchange: () => draw() },
      options.map(([value, said]) => element("option", { value, selected: value === chosen }, said)));
    const level = choice("Least level", LEVELS.map((each) => [each, each === "debug" ? "all levels" : `${each} and above`]), "debug");
    const contains = element("input", { type: "search", "aria-label": "Filter", placeholder: "contains", oninput: () => draw() });
    let found = [];
    let problem = null;
    const draw = () => {
      const below = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 4;
      const wanted = contains.value.toLowerCase();
      const shown = found
        .filter((line) => rank(line.level) >= rank(level.value))
        .map(logLine)
        .filter((line) => line.toLowerCase().includes(wanted));
      const text = problem ?? (shown.join("\n") || (found.length ? "No line matches." : "Nothing yet."));
      if (lines.textContent === text) return;
      lines.textContent = text;
      if (below) lines.scrollTop = lines.scrollHeight;
    };
    place.replaceChildren(element("div", { class: "row" }, level, contains,
      element("span", { class: "quiet" }, `the newest ${LINES.toLocaleString("en")} lines, times in UTC`)), lines);
    page.poll(`logs?lines=${LINES}`, EVERY_MS, signal, (data, refused) => {
      found = data ?? found;
      problem = refused?.message ?? null;
      draw();
    });
    return () => {};
  },
};

function rank(level) {
  const at = LEVELS.indexOf(level);
  return at < 0 ? LEVELS.length : at;
}

function logLine(line) {
  const where = [line.operator, line.subtask === undefined ? "driver" : `subtask ${line.subtask}`];
  const said = `${line.time} ${line.level.toUpperCase().padEnd(7)} [${where.filter((part) => part).join(", ")}] ${line.message}`;
  return continued(line.error ? `${said}\n${line.error}` : said);
}
