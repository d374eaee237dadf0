// What is shown follows the address; what is known comes by one stream.

import { attr, text } from "./dom.js";
import { Detail } from "./detail.js";
import { Overview } from "./overview.js";
import { stateOf } from "./words.js";
import { span } from "./format.js";

const $ = (id) => document.getElementById(id);
const quiet = 6000; // without a message for so long, the stream is taken for dead
const hidden = 30000; // a page that nobody sees for so long lets go of it

class App {
  start() {
    addEventListener("popstate", () => this.open());
    $("home").addEventListener("click", (e) => this.follow(e));
    document.addEventListener("visibilitychange", () => this.seen());
    addEventListener("pagehide", () => this.stop());
    addEventListener("pageshow", (e) => { if (e.persisted) this.connect(); });
    const often = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 100;
    setInterval(() => this.tick(), often);
    this.open();
  }

  // follow shows the target of a link without loading the page anew.
  follow(e) {
    if (e.defaultPrevented || e.button || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    history.pushState(null, "", e.currentTarget.href);
    this.open();
    scrollTo(0, 0);
    $("main").focus({ preventScroll: true });
  }

  open() {
    this.view?.close();
    const q = new URLSearchParams(location.search);
    this.query = "";
    if (q.has("governor")) {
      this.view = new Detail(this, q.get("governor"), q.get("peer") || "");
      const live = new URLSearchParams({ governor: q.get("governor") });
      if (q.get("peer")) live.set("peer", q.get("peer"));
      this.query = "?" + live;
    } else this.view = new Overview(this);
    $("main").replaceChildren(this.view.node);
    document.title = (q.get("governor") ? q.get("governor") + " · " : "") + "Flyball";
    this.connect();
  }

  connect() {
    this.stop();
    const s = this.stream = new EventSource("live" + this.query);
    this.heard = performance.now();
    const on = (kind, fn) => s.addEventListener(kind, (e) => {
      if (s !== this.stream) return;
      this.heard = performance.now();
      this.wait = 0;
      this.status("live", "Live");
      const data = JSON.parse(e.data);
      this.next = () => fn(data);
      // Several messages in one frame are one update, but none of a detail's may be lost.
      if (kind === "detail") return this.draw();
      this.frame ??= requestAnimationFrame(() => this.draw());
    });
    on("overview", (o) => {
      text($("process"), o.process);
      this.view.update(o);
      this.tell(o.governors);
    });
    on("detail", (d) => {
      this.view.update(d);
      text($("process"), d.peer ? "" : d.process);
      this.tell([d]);
    });
    on("gone", () => this.view.trouble("There is no such governor any more. It may have been closed because it was idle."));
    on("down", (d) => this.view.trouble("Its process is not seen: " + d.problem));
    s.onerror = () => {
      if (s !== this.stream) return;
      this.status("lost", "Reconnecting");
      if (s.readyState === EventSource.CLOSED) this.later();
    };
  }

  draw() {
    this.frame = null;
    const next = this.next;
    this.next = null;
    next?.();
  }

  // later connects anew, each time after a longer wait: a browser does not when it was
  // refused.
  later() {
    if (this.again) return;
    this.wait = Math.min(30000, (this.wait || 1000) * 2);
    this.status("lost", `Not connected, next try in ${span(this.wait)}`);
    this.again = setTimeout(() => this.connect(), this.wait);
  }

  stop() {
    clearTimeout(this.again);
    this.again = null;
    cancelAnimationFrame(this.frame);
    this.frame = this.next = null;
    this.stream?.close();
    this.stream = null;
    this.view?.forget?.(); // a new stream tells everything anew
  }

  seen() {
    clearTimeout(this.unseen);
    if (document.hidden) this.unseen = setTimeout(() => { this.stop(); this.status("idle", "Asleep"); }, hidden);
    else if (!this.stream && !this.again) this.connect();
  }

  tick() {
    if (document.hidden) return;
    this.view.count();
    if (this.stream && performance.now() - this.heard > quiet) {
      this.status("lost", "Reconnecting");
      this.stop();
      this.later();
    }
  }

  status(state, words) {
    attr($("live"), "data-state", state);
    text($("live-text"), words);
  }

  // tell says aloud which governors began to cool, and which are back.
  tell(all) {
    const was = this.states || new Map(), said = [];
    const shut = (s) => stateOf(s)[2] < 3;
    for (const g of all) {
      const key = (g.peer || 0) + "/" + g.id, before = was.get(key);
      if (before && shut(before) !== shut(g.state)) said.push(`${g.name}: ${stateOf(g.state)[0]}`);
      was.set(key, g.state);
    }
    this.states = was;
    if (said.length) text($("said"), said.join(". "));
    const n = all.filter((g) => shut(g.state)).length;
    const title = document.title.replace(/^\(\d+\) /, "");
    const titled = n ? `(${n}) ${title}` : title;
    if (titled !== document.title) document.title = titled;
  }

  // act does something to a governor, when the person agrees.
  async act(governor, what, ask, more, done) {
    if (ask.title && !(await this.ask(ask))) return;
    try {
      const res = await fetch("action", { method: "POST", body: new URLSearchParams({ do: what, governor, ...more }) });
      this.toast(res.ok ? done : "Refused: " + (await res.text()).trim());
    } catch {
      this.toast("Not done: no connection");
    }
  }

  // ask puts a question, and settles the one before with what was said to it: that the
  // dialog closed is told with the next frame, and by then it may be open again.
  ask({ title, text: words, yes }) {
    const box = $("ask");
    this.answered?.(box.returnValue === "yes");
    $("ask-title").textContent = title;
    $("ask-text").textContent = words;
    $("ask-yes").textContent = yes;
    box.returnValue = "";
    box.onclose = () => { if (!box.open) this.answered(box.returnValue === "yes"); };
    box.showModal();
    return new Promise((resolve) => { this.answered = resolve; });
  }

  toast(words) {
    const t = $("toast");
    t.textContent = words;
    t.hidden = false;
    clearTimeout(this.bread);
    this.bread = setTimeout(() => { t.hidden = true; }, 4000);
  }
}

const app = new App();
app.start();
