// Charts on a canvas: lines over time, and what is under the pointer.

import { clock, rate } from "./format.js";

let colours;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours = null; });

export function colour(name) {
  colours ??= new Map();
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return colours.get(name);
}

// sized makes the canvas as sharp as the screen. Its size is told by an observer, so
// that drawing asks for no layout.
const sizes = new ResizeObserver((all) => {
  for (const e of all) {
    const c = e.target;
    c.w = e.contentRect.width;
    c.h = e.contentRect.height;
    c.redraw?.();
  }
});

export function watchSize(canvas, redraw) {
  canvas.redraw = redraw;
  sizes.observe(canvas);
}

export function unwatch(canvas) { sizes.unobserve(canvas); }

function prepare(canvas) {
  if (!canvas.w || !canvas.h) return null;
  const d = Math.min(devicePixelRatio || 1, 3), w = Math.round(canvas.w * d), hh = Math.round(canvas.h * d);
  if (canvas.width !== w || canvas.height !== hh) {
    canvas.width = w;
    canvas.height = hh;
  }
  const g = canvas.getContext("2d");
  g.setTransform(d, 0, 0, d, 0, 0);
  g.clearRect(0, 0, canvas.w, canvas.h);
  return g;
}

// spark draws the last seconds of a rate, the latest on the right, and the quota.
export function spark(canvas, values, quota, tone) {
  const g = prepare(canvas);
  if (!g) return;
  const w = canvas.w, hh = canvas.h, slots = 60, step = w / (slots - 1);
  const most = Math.max(quota * 1.15, ...values, 1e-9) * 1.08;
  const y = (v) => hh - 1.5 - (v / most) * (hh - 5);
  const line = colour(tone === "idle" ? "idle" : "chart");
  g.strokeStyle = colour("line");
  g.lineWidth = 1;
  g.beginPath();
  g.moveTo(0, hh - .5);
  g.lineTo(w, hh - .5);
  g.stroke();
  if (quota > 0) {
    g.strokeStyle = colour("quota");
    g.setLineDash([4, 4]);
    g.beginPath();
    g.moveTo(0, y(quota));
    g.lineTo(w, y(quota));
    g.stroke();
    g.setLineDash([]);
  }
  if (values.length < 2) return;
  const x0 = w - (values.length - 1) * step;
  g.beginPath();
  values.forEach((v, i) => g.lineTo(x0 + i * step, y(v)));
  g.strokeStyle = line;
  g.lineWidth = 1.6;
  g.lineJoin = "round";
  g.stroke();
  g.lineTo(w, hh);
  g.lineTo(x0, hh);
  g.fillStyle = tone === "idle" ? "transparent" : colour("fill");
  g.fill();
}

// nice is a round number of at least v.
function nice(v) {
  if (!(v > 0)) return 1;
  const p = 10 ** Math.floor(Math.log10(v));
  for (const m of [1, 2, 2.5, 4, 5, 8, 10]) if (m * p >= v * .9999) return m * p;
  return 10 * p;
}

// Chart shows columns of a history: series are { key, colour, label, fill, dash, bars, unit }.
export class Chart {
  constructor(label, series, low) {
    this.label = label;
    this.series = series;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.tip = document.createElement("output");
    this.tip.hidden = true;
    this.node = document.createElement("div");
    this.node.className = low ? "chart low" : "chart";
    this.node.append(this.canvas, this.tip);
    this.at = null; // index of the point under the pointer or the cursor
    watchSize(this.canvas, () => this.draw());
    this.canvas.addEventListener("pointermove", (e) => this.point(e));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("blur", () => this.leave());
    this.canvas.addEventListener("keydown", (e) => this.key(e));
  }

  set(history, spanMs, say) {
    this.history = history;
    this.span = spanMs;
    const label = `${this.label}: ${say}. Arrow keys go through the seconds.`;
    if (label !== this.said) this.canvas.setAttribute("aria-label", this.said = label);
    this.draw();
  }

  x(t) { return this.left + (t - this.from) / this.span * (this.canvas.w - this.left - 2); }

  draw() {
    const hist = this.history, c = this.canvas;
    if (!hist) return;
    const g = prepare(c);
    if (!g) return;
    const n = hist.time.length, bottom = c.h - 18, top = 8;
    const to = n ? hist.time[n - 1] : Date.now();
    this.from = to - this.span;
    let most = 0;
    for (const s of this.series) for (const v of hist[s.key]) if (v > most) most = v;
    most = nice(most * 1.05);
    g.font = "11.5px " + colour("sans");
    const ticks = [0, most / 2, most].map((v) => [v, rate(v)]);
    this.left = Math.ceil(Math.max(...ticks.map(([, s]) => g.measureText(s).width))) + 10;
    const y = (v) => bottom - (v / most) * (bottom - top);
    g.lineWidth = 1;
    g.fillStyle = colour("dim");
    g.strokeStyle = colour("line");
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (const [v, s] of ticks) {
      g.beginPath();
      g.moveTo(this.left, Math.round(y(v)) + .5);
      g.lineTo(c.w, Math.round(y(v)) + .5);
      g.stroke();
      g.fillText(s, this.left - 7, y(v));
    }
    g.textBaseline = "alphabetic";
    const unit = [5, 10, 30, 60, 120, 300, 600, 900].find((s) => this.span / 1000 / s <= (c.w < 500 ? 4 : 6)) || 900;
    for (let back = unit; back * 1000 <= this.span; back += unit) {
      const px = this.x(to - back * 1000);
      g.textAlign = px < this.left + 20 ? "left" : "center";
      g.fillText(back % 60 ? `−${back} s` : `−${back / 60} min`, px, c.h - 4);
    }
    g.textAlign = "right";
    g.fillText("now", c.w - 2, c.h - 4);
    this.bands(g, hist, top, bottom);
    for (const s of this.series) (s.bars ? this.bars : this.line).call(this, g, hist, s, y, bottom);
    if (this.at != null) this.cursor(g, hist, y, top, bottom);
  }

  // bands shade the seconds in which the host cooled.
  bands(g, hist, top, bottom) {
    g.fillStyle = colour("band");
    for (let i = 0; i < hist.time.length; i++) {
      if (!hist.cooling[i]) continue;
      let k = i;
      while (k + 1 < hist.time.length && hist.cooling[k + 1]) k++;
      const a = Math.max(this.left, this.x(hist.time[i] - 1000)), b = this.x(hist.time[k]);
      if (b > a) g.fillRect(a, top, b - a, bottom - top);
      i = k;
    }
  }

  line(g, hist, s, y, bottom) {
    const values = hist[s.key];
    g.strokeStyle = colour(s.colour);
    g.lineWidth = s.dash ? 1.5 : 2;
    g.lineJoin = "round";
    g.setLineDash(s.dash ? [6, 5] : []);
    let from = -1;
    const draw = (a, b) => {
      if (b - a < 1) return;
      g.beginPath();
      for (let i = a; i <= b; i++) g.lineTo(this.x(hist.time[i]), y(values[i]));
      g.stroke();
      if (!s.fill) return;
      g.lineTo(this.x(hist.time[b]), bottom);
      g.lineTo(this.x(hist.time[a]), bottom);
      g.fillStyle = colour("fill");
      g.fill();
    };
    for (let i = 0; i <= values.length; i++) {
      const gap = i === values.length || hist.time[i] < this.from || (s.dash && !values[i]) || (from >= 0 && i > 0 && hist.time[i] - hist.time[i - 1] > 3500);
      if (gap) {
        if (from >= 0) draw(from, i - 1);
        from = i < values.length && hist.time[i] >= this.from && !(s.dash && !values[i]) ? i : -1;
      } else if (from < 0) from = i;
    }
    g.setLineDash([]);
  }

  bars(g, hist, s, y, bottom) {
    const w = Math.max(2, this.canvas.w / (this.span / 1000) - 1);
    g.fillStyle = colour(s.colour);
    hist[s.key].forEach((v, i) => {
      const x = this.x(hist.time[i]);
      if (v > 0 && x >= this.left) g.fillRect(x - w, Math.min(y(v), bottom - 3), w, Math.max(3, bottom - y(v)));
    });
  }

  cursor(g, hist, y, top, bottom) {
    const i = Math.min(this.at, hist.time.length - 1);
    if (i < 0) return;
    const x = this.x(hist.time[i]);
    g.strokeStyle = colour("dim");
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(Math.round(x) + .5, top);
    g.lineTo(Math.round(x) + .5, bottom);
    g.stroke();
    for (const s of this.series) {
      if (s.bars || (s.dash && !hist[s.key][i])) continue;
      g.fillStyle = colour(s.colour);
      g.beginPath();
      g.arc(x, y(hist[s.key][i]), 3.5, 0, 7);
      g.fill();
    }
    const lines = [clock(hist.time[i])];
    for (const s of this.series) if (!(s.dash && !hist[s.key][i])) lines.push(`${s.label} ${rate(hist[s.key][i])}${s.unit || ""}`);
    if (hist.cooling[i]) lines.push("host cooling");
    this.tip.textContent = lines.join("\n");
    this.tip.hidden = false;
    const wide = 170;
    this.tip.style.transform = `translate(${Math.round(x + wide > this.canvas.w ? x - wide : x + 12)}px, ${top}px)`;
  }

  nearest(t) {
    const times = this.history.time;
    let lo = 0, hi = times.length - 1;
    while (lo < hi) {
      const mid = (lo + hi) >> 1;
      if (times[mid] < t) lo = mid + 1;
      else hi = mid;
    }
    return lo > 0 && t - times[lo - 1] < times[lo] - t ? lo - 1 : lo;
  }

  point(e) {
    if (!this.history?.time.length) return;
    const box = this.canvas.getBoundingClientRect();
    this.at = this.nearest(this.from + (e.clientX - box.left - this.left) / (box.width - this.left) * this.span);
    this.draw();
  }

  key(e) {
    const n = this.history?.time.length;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[e.key];
    if (e.key === "Escape") return this.leave();
    if (!n || !step) return;
    e.preventDefault();
    this.at = Math.max(0, Math.min(n - 1, (this.at ?? n - 1) + step));
    this.draw();
  }

  leave() {
    this.at = null;
    this.tip.hidden = true;
    this.draw();
  }

  close() { unwatch(this.canvas); }
}
