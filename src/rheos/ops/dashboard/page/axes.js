// Chooses the numbers on the axes of charts: round ones, and few.

import { DAY, HOUR, KB, MINUTE, SECOND, SIZES } from "./text.js";

// Steps between ticks that people count in, ascending. Decimal steps (1, 2, 5, 10, ...) go on both ways.
const DURATIONS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  DAY,
];
const MANTISSAS = [1, 2, 5];

// Steps of time axes, in seconds.
export const TIME_STEPS_S = [
  ...DURATIONS.filter((ms) => ms >= SECOND).map((ms) => ms / SECOND),
  ...[2, 5, 10, 20, 50, 100, 200].map((days) => days * DAY / SECOND),
];

function decimalStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  const found = MANTISSAS.map((n) => n * power).find((step) => step >= least * (1 - 1e-9));
  return found ?? 10 * power;
}

function powerOf(value, base, most) {
  let power = 0;
  while (power < most && value >= base ** (power + 1)) power += 1;
  return power;
}

// Returns the smallest round step that is at least `least`.
export function stepOf(unit, least) {
  if (!(least > 0) || !Number.isFinite(least)) return 1;
  if (unit === "bytes") {
    const scale = KB ** powerOf(least, KB, SIZES.length - 1);
    const step = decimalStep(Math.max(1, least / scale));
    return step >= 1000 ? scale * KB : step * scale;
  }
  if (unit === "ms" && least > 1) {
    return DURATIONS.find((step) => step >= least) ?? decimalStep(least / DAY) * DAY;
  }
  return decimalStep(least);
}

// Returns { from, to, ticks }: an axis that has 0 and all from `least` to `most`, and begins and ends at a
// tick.
export function axis(unit, least, most, ticksWanted = 4) {
  const low = Math.min(0, least);
  const high = Math.max(0, most) > low ? Math.max(0, most) : low + 1;
  const step = stepOf(unit, (high - low) / ticksWanted);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  const ticks = Array.from({ length: last - first + 1 }, (_, n) => rounded((first + n) * step));
  return { from: ticks[0], to: ticks.at(-1), ticks };
}

// Removes what binary fractions add: 0.30000000000000004 is 0.3.
function rounded(value) {
  return Number(value.toPrecision(12));
}

// Formats a tick with the digits that it needs, and no others.
export function tickLabel(unit, value) {
  if (value === 0) return "0";
  if (value < 0) return `-${tickLabel(unit, -value)}`;
  if (unit === "bytes") {
    const power = powerOf(value, KB, SIZES.length - 1);
    return `${shortest(value / KB ** power)} ${SIZES[power]}`;
  }
  if (unit === "ms") return durationLabel(value);
  const [of, name] = [[1e9, " G"], [1e6, " M"], [1e4, " k"]].find(([least]) => value >= least) ?? [1, ""];
  return `${shortest(value / (of === 1e4 ? 1e3 : of))}${name}`;
}

function durationLabel(ms) {
  if (ms < SECOND) return `${shortest(ms)} ms`;
  const units = [[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]];
  const at = units.findIndex(([unit]) => ms >= unit);
  const [large, name] = units[at];
  const whole = Math.floor(ms / large);
  const rest = ms - whole * large;
  if (rest === 0) return `${shortest(whole)} ${name}`;
  const [small, smallName] = units[at + 1] ?? [null, null];
  if (small !== null && rest % small === 0) return `${whole} ${name} ${rest / small} ${smallName}`;
  return `${shortest(ms / large)} ${name}`;
}

function shortest(value) {
  return rounded(value).toLocaleString("en", { maximumSignificantDigits: 6 });
}

// Labels of a time axis in UTC: the date where a day begins and at the first tick, else the time.
export function timeLabels(seconds, step) {
  let day = null;
  return seconds.map((second) => {
    const [date, time] = new Date(second * 1000).toISOString().split("T");
    const clock = step < 60 ? time.slice(0, 8) : time.slice(0, 5);
    const shown = date === day ? clock : time.startsWith("00:00:00") && day !== null ? date : `${clock}\n${date}`;
    day = date;
    return shown;
  });
}

// Returns the highest value that an axis must show: of all values, but for those of the start-up, where a
// job reads what has piled up and would flatten everything after it. `cut` is the place of the highest
// value that is left out; null where all are shown.
export function highest(columns, startingUp, from, to) {
  let all = null;
  let later = null;
  let peak = null;
  let settled = 0;
  for (let at = from; at <= to; at += 1) {
    const values = columns.map((column) => column[at]).filter((value) => value !== null && value !== undefined);
    if (!values.length) continue;
    const most = Math.max(...values);
    if (all === null || most > all) {
      all = most;
      peak = at;
    }
    if (startingUp[at]) continue;
    settled += 1;
    later = later === null ? most : Math.max(later, most);
  }
  const flattened = settled >= SETTLED_MOMENTS && later > 0 && all > FLATTENS * later;
  return flattened ? { most: later, cut: peak, peak: all } : { most: all, cut: null, peak: all };
}

const SETTLED_MOMENTS = 3;
const FLATTENS = 1.5;

export const START_UP_S = 120;

// Returns for each moment whether its driver had just begun, by how long it had run.
export function startUps(uptimes) {
  return uptimes.map((uptime) => uptime !== null && uptime !== undefined && uptime < START_UP_S);
}
