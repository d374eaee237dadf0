// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en");

export const count = (n) => (n < 100000 ? whole.format(n) : short(n));

export function short(n) {
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= size) return (n / size).toFixed(n >= 100 * size ? 0 : 1).replace(/\.0$/, "") + unit;
  }
  return rate(n);
}

export function rate(n) {
  if (n >= 1000) return whole.format(Math.round(n));
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n >= 10 ? n.toFixed(1) : n.toFixed(2).replace(/0$/, "");
}

// span is a duration given in milliseconds.
export function span(ms) {
  if (!(ms > 0)) return "0";
  if (ms < 1) return Math.round(ms * 1000) + " µs";
  if (ms < 10) return ms.toFixed(1).replace(/\.0$/, "") + " ms";
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 1 : 0).replace(/\.0$/, "") + " s";
  if (ms < 3600000) return Math.floor(ms / 60000) + " min" + tail(Math.round((ms % 60000) / 1000), "s");
  if (ms < 172800000) return Math.floor(ms / 3600000) + " h" + tail(Math.round((ms % 3600000) / 60000), "min");
  return Math.round(ms / 86400000) + " days";
}

const tail = (n, unit) => (n ? ` ${n} ${unit}` : "");

// left is what a countdown shows: tenths of the last minute when there is one to look
// at, of the last ten seconds when there are many.
export function left(ms, many) {
  if (many && ms >= 10000 && ms < 60000) return Math.ceil(ms / 1000) + " s";
  if (ms < 60000) return (Math.max(0, ms) / 1000).toFixed(1) + " s";
  const s = Math.ceil(ms / 1000), two = (n) => String(n).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`;
  return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

const two = (n) => String(n).padStart(2, "0");

export function clock(at) {
  const t = new Date(at);
  return `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}
