// Formats numbers, times and strings for people.

// Data may hold characters that are invisible, or that reverse the order of letters. They are escaped, as
// Python does. Line breaks stay.
export function printable(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    if (character === "\n") return character;
    const code = character.codePointAt(0).toString(16);
    if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
  });
}

// Marks the further lines of a string, so that none of them looks like an entry of its own.
export function continued(text) {
  return printable(text).replaceAll("\n", "\n  | ");
}

export const KB = 1024;
export const SIZES = ["B", "KB", "MB", "GB", "TB"];
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= KB && unit < SIZES.length - 1) {
    value /= KB;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : Math.round(value)} ${SIZES[unit]}`;
}

export function count(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value.toLocaleString("en", { maximumFractionDigits: size < 10 ? 1 : 0 });
}

// A number with its noun: "1 record", "3 records".
export function counted(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < SECOND) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  if (ms < MINUTE - 50) return `${(ms / SECOND).toFixed(1)} s`;
  const parts = ms < HOUR - 500 ? [[MINUTE, "min"], [SECOND, "s"]]
    : ms < DAY - 30 * SECOND ? [[HOUR, "h"], [MINUTE, "min"]]
      : [[DAY, "d"], [HOUR, "h"]];
  const [[large, of], [small, rest]] = parts;
  const rounded = Math.round(ms / small) * small;
  const left = Math.round((rounded % large) / small);
  const whole = Math.floor(rounded / large);
  return left ? `${whole.toLocaleString("en")} ${of} ${left} ${rest}` : `${whole.toLocaleString("en")} ${of}`;
}

export function ago(ms) {
  if (ms === null || ms === undefined) return "";
  return ms < SECOND ? "now" : `${duration(ms < MINUTE ? Math.floor(ms / SECOND) * SECOND : ms).replace(".0 s", " s")} ago`;
}

export function share(part) {
  return part === null || part === undefined ? "" : `${Math.round(part * 100)} %`;
}

// A time in ISO 8601, in UTC as the log has it.
export function moment(ms) {
  if (ms === null || ms === undefined) return "";
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? String(ms) : at.toISOString().replace(/\.\d+Z$/, "Z");
}

// Formats a value by its unit.
export function inUnit(unit, value) {
  if (value === null || value === undefined) return "";
  switch (unit) {
    case "bytes": return size(value);
    case "ms": return duration(value);
    case "s": return duration(value * SECOND);
    case "ms since the epoch": return moment(value);
    default: return count(value);
  }
}
