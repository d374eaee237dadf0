// The overview: what all governors do, and a card for each.

import { attr, gauge, h, list, show, text } from "./dom.js";
import { count, left, rate, short, span } from "./format.js";
import { spark, unwatch, watchSize } from "./chart.js";
import { cost, scopeOf, stateOf } from "./words.js";

export class Overview {
  constructor(app) {
    this.app = app;
    this.only = "all";
    this.tiles = {};
    const tile = (key, name) => h("div", { class: "tile" }, h("dt", {}, name), this.tiles[key] = h("dd", {}, "–"));
    this.search = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", oninput: () => this.render() });
    const choice = (key, name) => h("button", { type: "button", "aria-pressed": String(key === this.only), onclick: () => this.choose(key) }, name);
    this.choices = { all: choice("all", "All"), trouble: choice("trouble", "Needs attention") };
    this.heading = h("h1", {}, "Governors");
    this.notes = h("div", { class: "notes", role: "status" });
    this.cards = h("ul", { class: "cards" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.node = h("div", {},
      h("dl", { class: "tiles", "aria-label": "Of all governors" }, tile("rate", "Calls per second"), tile("flight", "In flight"), tile("queued", "Waiting"),
        tile("refused", "Refused, last minute"), tile("cooling", "Cooling now")),
      this.notes,
      h("div", { class: "tools" }, this.heading, this.search, h("div", { class: "switch", role: "group", "aria-label": "Which governors" }, ...Object.values(this.choices))),
      this.cards, this.empty);
    this.seen = new IntersectionObserver((all) => {
      for (const e of all) {
        e.target.visible = e.isIntersecting;
        if (e.isIntersecting) this.sketch(e.target);
      }
    }, { rootMargin: "100px" });
  }

  choose(key) {
    this.only = key;
    for (const [k, b] of Object.entries(this.choices)) attr(b, "aria-pressed", String(k === key));
    this.render();
  }

  update(state) {
    this.state = state;
    this.at = performance.now();
    this.render();
  }

  render() {
    if (!this.state) return;
    const all = this.state.governors, sum = (f) => all.reduce((n, g) => n + f(g), 0);
    text(this.tiles.rate, short(sum((g) => g.rate)));
    text(this.tiles.flight, count(sum((g) => g.in_flight)));
    text(this.tiles.queued, count(sum((g) => g.queued)));
    text(this.tiles.refused, count(sum((g) => g.refusals)));
    text(this.tiles.cooling, count(all.filter((g) => g.state === "cooling" || g.state === "partly").length));
    const wanted = this.search.value.trim().toLowerCase();
    const shown = all.filter((g) => (this.only === "all" || stateOf(g.state)[2] < 6) && (!wanted || (g.name + " " + g.process).toLowerCase().includes(wanted)));
    shown.sort((a, b) => stateOf(a.state)[2] - stateOf(b.state)[2] || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) || (a.peer || 0) - (b.peer || 0));
    text(this.heading, shown.length === all.length ? `Governors (${all.length})` : `Governors (${shown.length} of ${all.length})`);
    this.many = (this.state.peers || []).length > 0;
    list(this.cards, shown, (g) => (g.peer || 0) + "/" + g.id, (g) => this.make(g), (n, g) => this.fill(n, g));
    show(this.empty, !shown.length);
    text(this.empty, all.length ? (this.only === "trouble" && !wanted ? "All is well: nothing cools, nothing is paused." : "No governor matches.") : "There is no governor yet.");
    const down = (this.state.peers || []).filter((p) => !p.up);
    list(this.notes, down, (p) => p.number, () => {
      const n = h("p", { class: "note" }, h("b"), h("span"));
      return n;
    }, (n, p) => {
      text(n.firstChild, p.process);
      text(n.lastChild, p.problem === "not asked yet" ? "is being asked" : "is not seen: " + p.problem);
    });
    this.count();
  }

  make(g) {
    const n = h("li", { class: "card" });
    const q = new URLSearchParams({ governor: g.id });
    if (g.peer) q.set("peer", g.peer);
    n.link = h("a", { href: "?" + q }, g.name);
    n.link.addEventListener("click", (e) => this.app.follow(e));
    n.badge = h("span", { class: "badge" });
    n.of = h("p", { class: "of" });
    n.canvas = h("canvas", { role: "img", "aria-label": "Calls per second over the last minute" });
    const dd = (name) => {
      const v = h("span"), s = h("small");
      return [h("div", {}, h("dt", {}, name), h("dd", {}, v, s)), v, s];
    };
    const [a, rateV, rateS] = dd("Calls/s"), [b, flV, flS] = dd("In flight"), [c, quV] = dd("Waiting"), [d, p99] = dd("p99");
    Object.assign(n, { rateV, rateS, flV, flS, quV, p99 });
    n.left = h("span", { class: "left" });
    n.why = h("span", { class: "why" });
    n.progress = h("progress", { class: "warn", "aria-label": "Left of the cooldown" });
    n.foot = h("div", { class: "foot" }, n.progress, n.left, n.why);
    n.append(h("div", { class: "top" }, h("h2", {}, n.link), n.badge), n.of, n.canvas, h("dl", {}, a, b, c, d), n.foot);
    watchSize(n.canvas, () => this.sketch(n));
    this.seen.observe(n);
    const remove = n.remove;
    n.remove = () => {
      this.seen.unobserve(n);
      unwatch(n.canvas);
      remove.call(n);
    };
    return n;
  }

  fill(n, g) {
    n.g = g;
    const [word, tone] = stateOf(g.state);
    attr(n, "data-tone", tone);
    attr(n.badge, "data-tone", tone);
    text(n.badge, word);
    text(n.of, [this.many ? g.process : "", g.observe ? "observes only" : "", cost(g)].filter(Boolean).join(" · "));
    text(n.rateV, rate(g.rate));
    text(n.rateS, g.quota ? " of " + rate(g.quota) : "");
    text(n.flV, count(g.in_flight));
    text(n.flS, "/" + count(g.workers));
    text(n.quV, count(g.queued));
    text(n.p99, g.call_p99 ? span(g.call_p99) : "–");
    const c = g.cooldowns?.[0];
    const broken = g.state === "breaker", id = broken ? "breaker" : c?.id;
    const rest = broken ? g.breaker_left || 0 : c?.phase === "cooling" ? c.left : 0; // until when nothing starts
    n.end = rest ? this.at + rest : 0;
    n.length = n.length > rest && n.of1 === id ? n.length : Math.max((broken ? g.breaker_length : c?.length) || 0, rest);
    n.of1 = id;
    show(n.left, n.end);
    show(n.progress, n.end);
    let why = g.refusals ? `${count(g.refusals)} refused in the last minute` : g.limited ? `${count(g.limited)} refused so far` : "Nothing refused";
    if (c) why = (c.phase === "cooling" ? "" : c.phase === "probing" ? "Probing " : "Ramping ") + scopeOf(c.scope) + (g.cooling > 1 ? ` and ${g.cooling - 1} more` : "") + (c.source ? " · " + c.source : "");
    if (g.state === "paused") why = "Paused by hand";
    if (broken) why = "Calls fail at once" + (g.breaker_why ? " · " + g.breaker_why : "");
    attr(n.progress, "class", broken ? "bad" : "warn");
    attr(n.progress, "aria-label", broken ? "Left until a call may try" : "Left of the cooldown");
    if (g.state === "closed") why = "Takes no requests any more";
    text(n.why, why);
    if (n.visible) this.sketch(n);
  }

  sketch(n) {
    if (n.g) spark(n.canvas, n.g.spark || [], n.g.quota, stateOf(n.g.state)[1] === "idle" ? "idle" : "");
  }

  // count moves the countdowns on.
  count() {
    const now = performance.now();
    for (const n of this.cards.children) {
      if (!n.end || (!n.visible && n.visible !== undefined)) continue;
      text(n.left, left(n.end - now, true));
      gauge(n.progress, n.end - now, n.length);
    }
  }

  close() {
    this.seen.disconnect();
    for (const n of this.cards.children) unwatch(n.canvas);
  }
}
