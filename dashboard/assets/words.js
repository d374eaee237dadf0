// What states, kinds of errors and events are called. The tables have no prototype: other
// processes say what is looked up in them.

import { count, span } from "./format.js";

export const states = {
  __proto__: null,
  closed: ["Closed", "idle", 8], paused: ["Paused", "held", 2], breaker: ["Breaker open", "bad", 0], cooling: ["Cooling", "warn", 1],
  probing: ["Probing", "info", 3], ramping: ["Ramping up", "info", 4], partly: ["Partly cooling", "warn", 5], busy: ["Running", "ok", 6], idle: ["Idle", "idle", 7],
};

export const stateOf = (s) => states[s] || [s, "idle", 9];

export const errors = {
  __proto__: null,
  limited: ["Refused by the vendor", "attempts that met a rate limit"], failed: ["Failed", "requests that ended in an error"],
  gave_up: ["Gave up", "requests whose attempts or time ran out"], dropped: ["Dropped", "requests that ended in the queue: cancelled, late, overflowing"],
  refused: ["Refused at the door", "requests that were not taken in"], overflow: ["Overflow", "requests that met a full queue"],
  connect: ["No connection", "connections that did not open"], panics: ["Panics", "of closures, adapters and hooks"], stuck: ["Stuck", "calls that run longer than they should"],
};

// The tone of an event; those not named have none.
export const tones = {
  __proto__: null,
  cooling: "warn", extended: "warn", learned: "warn", clamped: "warn", overflow: "bad", "gave up": "bad", "bad vendor": "bad", "breaker state": "bad",
  "pool failed": "bad", stuck: "bad", abandoned: "bad", "store lost": "bad", unguarded: "bad", cooled: "ok", resumed: "ok", cleared: "ok", "store back": "ok",
  probe: "info", ramp: "info", paused: "held", unpaused: "held",
};

// cost is what cooldowns have cost: how many, and how long the host kept still lately.
export const cost = (g) => (g.episodes ? `${count(g.episodes)} ${g.episodes === 1 ? "cooldown" : "cooldowns"} so far` : "no cooldown so far") + (g.cooled >= 1000 ? `, cooled ${span(g.cooled)} lately` : "");

export const scopeOf = (s) => (s === "host" ? "the whole host" : s.replace(":", " "));
