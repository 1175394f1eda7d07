// Figures and texts as people read them.

// Rows may hold characters that are not seen, or that reverse the order of letters: these are escaped, as
// Python does. Lines stay lines.
export function printable(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) => {
    if (character === "\n") return character;
    const code = character.codePointAt(0).toString(16);
    if (code.length <= 2) return `\\x${code.padStart(2, "0")}`;
    return code.length <= 4 ? `\\u${code.padStart(4, "0")}` : `\\U${code.padStart(8, "0")}`;
  });
}

// A text of several lines: none of them can be taken for a line of its own.
export function continued(text) {
  return printable(text).replaceAll("\n", "\n  | ");
}

const SIZES = ["B", "KB", "MB", "GB", "TB"];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let value = bytes;
  let unit = 0;
  while (value >= 1024 && unit < SIZES.length - 1) {
    value /= 1024;
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

export function duration(ms) {
  if (ms === null || ms === undefined) return "";
  const size = Math.abs(ms);
  if (size < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (size < 1000) return `${ms.toFixed(size < 10 ? 1 : 0)} ms`;
  if (size < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (size < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  if (size < 86_400_000) return `${(ms / 3_600_000).toFixed(1)} h`;
  return `${(ms / 86_400_000).toFixed(1)} d`;
}

export function share(part) {
  return part === null || part === undefined ? "" : `${Math.round(part * 100)} %`;
}

export function moment(ms) {
  return ms ? new Date(ms).toISOString().replace("T", " ").slice(0, 19) : "";
}

// By the unit that a figure has.
export function inUnit(unit, value) {
  if (value === null || value === undefined) return "";
  switch (unit) {
    case "bytes": return size(value);
    case "ms": return duration(value);
    case "s": return duration(value * 1000);
    case "ms since the epoch": return moment(value);
    default: return count(value);
  }
}
