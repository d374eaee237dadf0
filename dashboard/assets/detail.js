// One governor: everything that it says of itself.

import { attr, cells, gauge, h, list, show, table, text } from "./dom.js";
import { clock, count, left, rate, span } from "./format.js";
import { Chart } from "./chart.js";
import { cost, errors, scopeOf, stateOf, tones } from "./words.js";

const maxEvents = 256;
const columns = ["time", "rate", "done", "limited", "queued", "in_flight", "quota", "cooling"];
const ns = (x) => x / 1e6;

function panel(title, cls, ...kids) {
  const note = h("span", { class: "note2" });
  const node = h("section", { class: "panel " + cls, "aria-label": title }, h("header", {}, h("h2", {}, title), note), ...kids);
  node.note = note;
  return node;
}

const legend = (...items) => h("ul", { class: "legend" }, ...items.map(([name, c, cls]) => {
  const li = h("li", { class: cls }, name);
  li.style.setProperty("--c", `var(--${c})`);
  return li;
}));

export class Detail {
  constructor(app, id, peer) {
    this.app = app;
    this.id = id;
    this.peer = peer;
    this.forget();
    this.title();
    this.hero();
    this.tiles();
    this.charts();
    this.tables();
    this.node = h("div", {}, h("p", { class: "crumb" }, this.back), this.head, this.warning, this.heroBox, this.tileBox,
      h("div", { class: "grid" }, this.ratePanel, this.queuePanel, this.flightPanel, this.coolPanel, this.lanePanel, this.tenantPanel,
        this.latencyPanel, this.limitPanel, this.errorPanel, this.countPanel, this.poolPanel, this.breakerPanel, this.eventPanel));
  }

  forget() {
    this.cursor = "";
    this.history = Object.fromEntries(columns.map((c) => [c, []]));
    this.events = new Map();
  }

  title() {
    this.back = h("a", { href: "./" }, "← All governors");
    this.back.addEventListener("click", (e) => this.app.follow(e));
    this.name = h("h1", {}, this.id);
    this.badge = h("span", { class: "badge" });
    this.of = h("span", { class: "of" });
    this.pause = h("button", { type: "button", class: "button", hidden: true, onclick: () => this.toggle() });
    this.head = h("div", { class: "title" }, this.name, this.badge, this.of, h("div", { class: "acts" }, this.pause));
    this.warning = h("p", { class: "note", role: "status", hidden: true });
  }

  hero() {
    this.heroLeft = h("div", { class: "left", role: "timer", "aria-label": "Left of the cooldown" });
    this.heroTitle = h("h2");
    this.heroText = h("p");
    this.heroSource = h("q");
    this.heroBar = h("progress", { class: "warn", "aria-label": "Left of the cooldown" });
    this.heroClear = h("button", { type: "button", class: "button", hidden: true, onclick: () => this.clear(this.first) }, "Clear");
    this.heroBox = h("section", { class: "hero", "aria-label": "Cooldown", hidden: true }, this.heroLeft, h("div", { class: "told" }, this.heroTitle, this.heroText, h("p", {}, this.heroSource)), this.heroClear, this.heroBar);
  }

  tiles() {
    this.tile = {};
    const tile = (key, name, bar) => {
      const v = h("span"), s = h("small"), m = bar && h("progress", { class: "meter", "aria-label": name });
      this.tile[key] = { v, s, m };
      return h("div", { class: "tile" }, h("dt", {}, name), h("dd", {}, v, s), m && h("dd", {}, m));
    };
    this.tileBox = h("dl", { class: "tiles" }, tile("rate", "Calls per second", true), tile("flight", "In flight", true), tile("queued", "Waiting", true),
      tile("limited", "Refused by the vendor"), tile("call", "Call, median / p99"), tile("wait", "In queue, median / p99"));
  }

  charts() {
    const mk = (title, cls, series, leg, low) => {
      const chart = new Chart(title, series, low);
      const p = panel(title, cls, chart.node);
      if (leg) p.firstChild.append(leg);
      return [p, chart];
    };
    [this.ratePanel, this.rateChart] = mk("Calls per second", "full", [
      { key: "rate", colour: "chart", label: "started", unit: "/s", fill: true },
      { key: "quota", colour: "quota", label: "quota", unit: "/s", dash: true },
      { key: "limited", colour: "refused", label: "refused", bars: true },
    ], legend(["started", "chart"], ["quota, known or learned", "quota", "dash"], ["refused", "refused"], ["host cooling", "band", "band"]));
    [this.queuePanel, this.queueChart] = mk("Waiting", "", [{ key: "queued", colour: "chart", label: "waiting", fill: true }], null, true);
    [this.flightPanel, this.flightChart] = mk("In flight", "", [{ key: "in_flight", colour: "chart", label: "in flight", fill: true }], null, true);
  }

  tables() {
    const tab = (caption, head) => {
      const t = table(caption, head);
      t.none = h("p", { class: "none" });
      t.box = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, t.node);
      return t;
    };
    const withTable = (title, cls, t) => panel(title, cls, t.box, t.none);
    this.cools = tab("Cooldowns", [["Scope"], ["Phase"], ["Left", "r"], ["Until"], ["Limit"], ["What the vendor said"], ["", "r"]]);
    this.coolPanel = withTable("Cooldowns", "full", this.cools);
    this.cools.node.querySelector("th:last-child").append(h("span", { class: "hidden" }, "Action"));
    this.lanes = tab("Lanes, the longest first", [["Tenant"], ["Selector"], ["Bucket"], ["Priority", "r"], ["Waiting", "r"], ["Held by"]]);
    this.lanePanel = withTable("Queue by lane", "", this.lanes);
    this.tenants = tab("Tenants, those with most waiting first", [["Tenant"], ["Lanes", "r"], ["Waiting", "r"], ["Share"]]);
    this.tenantPanel = withTable("Queue by tenant", "", this.tenants);
    this.errs = tab("Errors by kind", [["Kind"], ["Lately", "r"], ["Since start", "r"]]);
    this.errorPanel = withTable("Errors by kind", "quarter", this.errs);
    this.lat = tab("Latency", [["", ""], ["median", "r"], ["p90", "r"], ["p99", "r"], ["longest", "r"], ["count", "r"]]);
    this.latencyPanel = withTable("Latency", "", this.lat);
    this.lat.node.querySelector("th").append(h("span", { class: "hidden" }, "What"));
    this.poolFacts = h("dl", { class: "facts" });
    this.poolStack = h("div", { class: "stack", "aria-hidden": "true" });
    this.poolNone = h("p", { class: "none" }, "This governor opens no connections of its own.");
    this.poolPanel = panel("Connection pool", "quarter", this.poolStack, this.poolFacts, this.poolNone);
    this.limits = tab("Limits", [["Limit"], ["Per second", "r"], ["Left", "r"], ["Share"], ["Renewed in", "r"]]);
    this.limitPanel = withTable("Limits", "", this.limits);
    this.breakerFacts = h("dl", { class: "facts" });
    this.breakerNone = h("p", { class: "none" }, "This governor has no breaker.");
    this.breakerPanel = panel("Breaker", "quarter", this.breakerFacts, this.breakerNone);
    this.countFacts = h("dl", { class: "facts" });
    this.countPanel = panel("Counters since start", "quarter", this.countFacts);
    this.evs = tab("Recent events, the latest first", [["Time"], ["Event"], ["Scope"], ["Delay", "r"], ["Told"]]);
    this.evs.box.classList.add("events");
    this.eventPanel = withTable("Recent events", "full", this.evs);
  }

  update(d) {
    const boot = (c) => c.split("-")[0];
    if (this.cursor && boot(this.cursor) !== boot(d.cursor)) this.forget();
    this.cursor = d.cursor;
    this.at = performance.now();
    this.d = d;
    this.take(d);
    show(this.warning, false);
    const [word, tone] = stateOf(d.state), st = d.stats;
    text(this.name, d.name);
    attr(this.badge, "data-tone", tone);
    text(this.badge, word);
    text(this.of, d.process + (d.observe ? " · observes only: nothing is delayed or refused" : ""));
    show(this.pause, d.actions && !st.closed);
    text(this.pause, st.paused ? "Resume" : "Pause");
    const t = this.tile;
    text(t.rate.v, rate(d.rate));
    text(t.rate.s, d.quota ? " of " + rate(d.quota) : "");
    gauge(t.rate.m, d.rate, d.quota || Math.max(d.rate, 1));
    show(t.rate.m, d.quota > 0);
    text(t.flight.v, count(d.in_flight));
    text(t.flight.s, " of " + count(d.workers));
    gauge(t.flight.m, d.in_flight, d.workers);
    text(t.queued.v, count(d.queued));
    text(t.queued.s, " of " + count(d.max_queue));
    gauge(t.queued.m, d.queued, d.max_queue);
    text(t.limited.v, count(d.limited));
    text(t.limited.s, ` in ${count(d.episodes)} ${d.episodes === 1 ? "cooldown" : "cooldowns"}`);
    for (const [tile, l] of [[t.call, st.recent_call], [t.wait, st.recent_wait]]) {
      text(tile.v, l.count ? span(ns(l.p50)) : "–");
      text(tile.s, l.count ? " / " + span(ns(l.p99)) : "");
    }
    const past = this.history, lived = past.time.length ? past.time[past.time.length - 1] - past.time[0] : 0;
    const wide = Math.min(d.history.span, [30000, 60000, 120000, 300000, 600000, 1200000].find((s) => s >= lived) || d.history.span); // a young page is not empty
    const minutes = span(wide);
    const peak = (k) => rate(past[k].reduce((a, b) => Math.max(a, b), 0));
    this.rateChart.set(past, wide, `${rate(d.rate)} now${d.quota ? ` of a quota of ${rate(d.quota)}` : ""}, at most ${peak("rate")} in ${minutes}`);
    this.queueChart.set(past, wide, `${d.queued} now, at most ${peak("queued")} in ${minutes}`);
    this.flightChart.set(past, wide, `${d.in_flight} now, at most ${peak("in_flight")} in ${minutes}`);
    this.cooldowns(d);
    this.queue(d);
    this.numbers(d);
    this.journal();
    this.count();
  }

  // take adds what is new to the past.
  take(d) {
    const hist = this.history;
    for (const c of columns) hist[c].push(...(d.history[c] || []));
    const newest = hist.time[hist.time.length - 1] || 0;
    const old = hist.time.findIndex((t) => t > newest - d.history.span - 2000);
    if (old > 0) for (const c of columns) hist[c].splice(0, old);
    this.fresh = (d.events || []).length > 0;
    for (const e of d.events || []) this.events.set(e.id, e);
    for (const id of this.events.keys()) {
      if (this.events.size <= maxEvents) break;
      this.events.delete(id);
    }
  }

  cooldowns(d) {
    const all = d.cooldowns || [], t = this.cools;
    const first = all.find((c) => c.phase === "cooling");
    this.lengths ??= new Map();
    const length = (c) => Math.max(this.lengths.get(c.id) || 0, c.length, c.left);
    this.lengths = new Map(all.map((c) => [c.id, c.phase === "cooling" ? length(c) : 0]));
    this.first = first;
    const broken = d.state === "breaker"; // it is told before a cooldown
    const rest = broken ? d.breaker_left || 0 : first ? first.left : 0;
    const id = broken ? "breaker" : first?.id;
    if (id !== this.restOf || rest > this.most) this.most = broken ? Math.max(d.breaker_length || 0, rest) : first ? length(first) : 1;
    this.restOf = id;
    this.end = rest ? this.at + rest : 0;
    show(this.heroBox, first || broken);
    show(this.heroLeft, this.end);
    show(this.heroBar, this.end);
    attr(this.heroBox, "data-tone", broken ? "bad" : null);
    attr(this.heroBox, "aria-label", broken ? "Breaker" : "Cooldown");
    for (const n of [this.heroLeft, this.heroBar]) attr(n, "aria-label", broken ? "Left until a call may try" : "Left of the cooldown");
    attr(this.heroBar, "class", broken ? "bad" : "warn");
    if (broken) {
      const until = this.end ? `Until ${clock(Date.parse(d.time) + rest)}, then one call tries. ` : "";
      text(this.heroTitle, d.breaker === "half-open" ? "The breaker lets a few calls try; others fail at once" : "The breaker is open: calls fail at once");
      text(this.heroText, `${until}${count(d.queued)} waiting · ${cost(d)}`);
      text(this.heroSource, d.breaker_why || "");
      show(this.heroClear, false);
    } else if (first) {
      text(this.heroTitle, first.scope === "host" ? "The whole host cools down" : `Cools down: ${scopeOf(first.scope)}`);
      text(this.heroText, `Until ${clock(first.until)}${first.kind !== "unknown" ? ` · ${first.kind} limit` : ""} · ${count(d.queued)} waiting · ${cost(d)}. ${d.observe ? "Calls go on: this governor only looks on." : "Then one call goes first, as a probe."}`);
      text(this.heroSource, first.source ? `“${first.source}”` : "");
      show(this.heroClear, d.actions);
    }
    list(t.body, all, (c) => c.id, () => {
      const tr = cells("key", "n", "r", "n", "n", "", "r")();
      tr.badge = h("span", { class: "badge" });
      tr.cell[1].append(tr.badge);
      tr.src = h("span", { class: "src" });
      tr.cell[5].append(tr.src);
      tr.button = h("button", { type: "button", class: "button small", onclick: () => this.clear(tr.c) }, "Clear");
      tr.cell[6].append(tr.button);
      return tr;
    }, (tr, c) => {
      tr.c = c;
      tr.end = c.phase === "cooling" ? this.at + c.left : 0;
      text(tr.cell[0], c.scope);
      attr(tr.badge, "data-tone", c.phase === "cooling" ? "warn" : "info");
      text(tr.badge, c.phase);
      if (!tr.end) text(tr.cell[2], "–");
      text(tr.cell[3], tr.end ? clock(c.until) : "–");
      text(tr.cell[4], c.kind);
      text(tr.src, c.source || "–");
      show(tr.button, d.actions);
      attr(tr.button, "aria-label", "Clear " + c.scope);
    });
    this.fillTable(t, all.length, "Nothing cools.");
    text(this.coolPanel.note, d.cooling > all.length ? `${all.length} of ${count(d.cooling)}` : "");
  }

  fillTable(t, n, none) {
    show(t.box, n);
    show(t.none, !n);
    text(t.none, none);
  }

  queue(d) {
    const lanes = d.lanes || [], tenants = d.tenants || [];
    const all = { cooling: "the host", paused: "hand", breaker: "the breaker" }[d.state]; // what holds every lane
    list(this.lanes.body, lanes, (l) => [l.tenant, l.selector, l.bucket, l.priority].join("\0"), cells("key", "", "", "r", "r", "n"), (tr, l) => {
      [l.tenant || "–", l.selector || "–", l.bucket || "–", l.priority || 0, count(l.waiting), all || (l.held ? "its scope, a limit or the pool" : "")].forEach((s, i) => text(tr.cell[i], s));
    });
    this.fillTable(this.lanes, lanes.length, "Nothing waits.");
    text(this.lanePanel.note, d.lane_count > lanes.length ? `${lanes.length} of ${count(d.lane_count)}` : "");
    const most = Math.max(1, ...tenants.map((x) => x.waiting));
    list(this.tenants.body, tenants, (x) => x.name, () => {
      const tr = cells("key", "r", "r", "")();
      tr.bar = h("progress", { "aria-label": "Share" });
      tr.cell[3].append(tr.bar);
      return tr;
    }, (tr, x) => {
      text(tr.cell[0], x.name || "– none –");
      text(tr.cell[1], x.lanes);
      text(tr.cell[2], count(x.waiting));
      gauge(tr.bar, x.waiting, most);
    });
    this.fillTable(this.tenants, tenants.length, "Nothing waits.");
    text(this.tenantPanel.note, d.tenant_count > tenants.length ? `${tenants.length} of ${count(d.tenant_count)}` : "");
  }

  numbers(d) {
    const st = d.stats;
    list(this.errs.body, d.errors || [], (e) => e.kind, cells("", "r", "r"), (tr, e) => {
      const [name, what] = errors[e.kind] || [e.kind, ""];
      text(tr.cell[0], name);
      attr(tr.cell[0], "title", what);
      text(tr.cell[1], count(e.recent));
      text(tr.cell[2], count(e.total));
      attr(tr, "class", e.total ? null : "dim");
    });
    text(this.errorPanel.note, "lately: " + span(d.history.span));
    this.fillTable(this.errs, 1, "");
    const lately = span(Math.round(ns(st.recent) / 1000) * 1000);
    list(this.lat.body, [["Calls, lately", st.recent_call], ["In queue, lately", st.recent_wait], ["Calls, since start", st.call], ["In queue, since start", st.wait]], (x) => x[0], cells("n", "r", "r", "r", "r", "r"), (tr, [name, l]) => {
      [name, ...[l.p50, l.p90, l.p99, l.max].map((x) => (l.count ? span(ns(x)) : "–")), count(l.count)].forEach((s, i) => text(tr.cell[i], s));
    });
    text(this.latencyPanel.note, st.recent ? "lately: " + lately : "");
    this.fillTable(this.lat, 1, "");
    this.pool(st.pool);
    this.breaker(d, st.breaker);
    this.bounds(d.limits || []);
    facts(this.countFacts, [["Submitted", st.submitted], ["Attempts started", st.started], ["Succeeded", st.succeeded], ["Failed", st.failed], ["Retried", st.retried],
      ["Asked to go on", st.again], ...(st.observe ? [["Would have waited", st.would_wait || 0], ["Would be refused", st.would_refuse || 0]] : [])].map(([k, v]) => [k, count(v)]));
  }

  breaker(d, b) {
    show(this.breakerFacts, b);
    show(this.breakerNone, !b);
    text(this.breakerPanel.note, b ? d.breaker : "");
    if (!b) return;
    const part = (x) => (x < 0 ? "–" : rate(100 * x) + " %");
    facts(this.breakerFacts, [["Calls", b.refusing ? "fail at once" : d.breaker === "open" ? "the next one tries" : "pass"], ["Until", d.breaker_left ? "in " + span(d.breaker_left) : "–"], ["Opened by", d.breaker_why || "–"],
      ["Failed, of those it counts", `${count(b.failed)} of ${count(b.calls)}`], ["Failure rate", part(b.failure_rate)], ["Slow", part(b.slow_rate)], ["Opened in a row", count(b.opens)]]);
  }

  // bounds are the limits, and what is left of them.
  bounds(all) {
    list(this.limits.body, all.map((l, i) => [l, i]), ([l, i]) => i + l.key, () => {
      const tr = cells("key", "r", "r", "", "r")();
      tr.bar = h("progress", { "aria-label": "Share that is left" });
      tr.cell[3].append(tr.bar);
      return tr;
    }, (tr, [l]) => {
      text(tr.cell[0], (l.per === "host" ? "The whole host" : l.key ? `${l.per} ${l.key}` : `Each ${l.per}`) + (l.unit ? `, ${l.unit}` : ""));
      text(tr.cell[1], l.rate ? rate(l.rate) : "–");
      text(tr.cell[2], (l.remaining < 0 ? "–" : count(l.remaining)) + (l.limit < 0 ? "" : " of " + count(l.limit)));
      show(tr.bar, l.limit > 0 && l.remaining >= 0);
      gauge(tr.bar, l.remaining, l.limit);
      text(tr.cell[4], l.left ? span(Math.round(l.left / 1000) * 1000) : l.window ? span(l.window) + " at most" : "–");
    });
    this.fillTable(this.limits, all.length, "There is no limit.");
  }

  pool(p) {
    const there = p.max > 0;
    for (const n of [this.poolStack, this.poolFacts]) show(n, there);
    show(this.poolNone, !there);
    text(this.poolPanel.note, there ? `${count(p.open)} of ${count(p.max)} open` : "");
    if (!there) return;
    const parts = [["in use", p.in_use, "chart"], ["idle", p.idle, "info"], ["opening", p.opening, "quota"], ["closing", p.closing, "idle"]];
    list(this.poolStack, parts, (x) => x[0], () => h("span"), (n, [, v, c]) => {
      n.style.width = (100 * v / p.max) + "%";
      n.style.background = `var(--${c})`;
    });
    facts(this.poolFacts, [...parts.map(([k, v, c]) => [k, count(v), c]), ["opened / reused", `${count(p.created)} / ${count(p.reused)}`], ["stolen / discarded", `${count(p.stolen)} / ${count(p.discarded)}`], ["failed to open", count(p.failed)]]);
  }

  journal() {
    if (!this.fresh && this.evs.body.kids) return;
    const all = [...this.events.values()].sort((a, b) => b.id - a.id);
    list(this.evs.body, all, (e) => e.id, () => {
      const tr = cells("n", "n", "key", "r", "")();
      tr.badge = h("span", { class: "badge" });
      tr.times = h("span", { class: "dim" });
      tr.cell[1].append(tr.badge, tr.times);
      return tr;
    }, (tr, e) => {
      text(tr.cell[0], clock(e.time));
      attr(tr.badge, "data-tone", tones[e.kind]);
      text(tr.badge, e.kind);
      text(tr.times, e.count > 1 ? ` ×${count(e.count)}` : "");
      text(tr.cell[2], e.scope || (e.request ? "request " + e.request : ""));
      text(tr.cell[3], e.delay ? span(e.delay) : "");
      text(tr.cell[4], [e.source, e.error].filter((s, i, a) => s && a.indexOf(s) === i).join(" · "));
    });
    this.fillTable(this.evs, all.length, "Nothing has happened yet that is worth telling: no refusal, no cooldown, no failure.");
    text(this.eventPanel.note, all.length ? `the last ${all.length}` : "");
  }

  // count moves the countdowns on.
  count() {
    const now = performance.now();
    if (this.end) {
      text(this.heroLeft, left(this.end - now));
      gauge(this.heroBar, this.end - now, this.most || 1);
    }
    for (const tr of this.cools.body.children) if (tr.end) text(tr.cell[2], left(tr.end - now));
  }

  trouble(what) {
    show(this.warning, true);
    text(this.warning, what);
  }

  toggle() {
    const paused = this.d.stats.paused;
    this.app.act(this.id, paused ? "resume" : "pause", {
      title: paused ? "" : `Pause ${this.d.name}?`, text: "No call starts until it is resumed. What runs goes on; what is submitted waits.", yes: "Pause",
    }, {}, paused ? "Resumed" : "Paused");
  }

  clear(c) {
    if (!c) return;
    this.app.act(this.id, "clear", {
      title: `Clear the cooldown of ${scopeOf(c.scope)}?`, text: "Calls start at once, although the vendor asked to wait. Vendors punish that with longer waits.", yes: "Clear",
    }, { cooldown: c.id }, "Cleared");
  }

  close() { for (const c of [this.rateChart, this.queueChart, this.flightChart]) c.close(); }
}

function facts(dl, all) {
  list(dl, all.flatMap(([k, v, c]) => [["dt", k, c], ["dd", v, "", k]]), (x) => x[0] + (x[3] ?? x[1]), (x) => {
    const n = h(x[0]);
    n.label = h("span");
    if (x[2]) {
      n.dot = h("span", { class: "dot", "aria-hidden": "true" });
      n.dot.style.setProperty("--c", `var(--${x[2]})`);
      n.append(n.dot);
    }
    n.append(n.label);
    return n;
  }, (n, x) => text(n.label, x[1]));
}
