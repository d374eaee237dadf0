// Nodes are made once and changed where something differs. Texts become text nodes,
// never markup: what vendors and users wrote cannot be anything else.

export function h(tag, attrs, ...kids) {
  const n = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (v === false || v == null) continue;
    if (k.startsWith("on")) n.addEventListener(k.slice(2), v);
    else if (k === "class") n.className = v;
    else n.setAttribute(k, v === true ? "" : v);
  }
  n.append(...kids.filter((k) => k != null && k !== false));
  return n;
}

export function text(n, s) {
  s = String(s);
  if (n.shown !== s) n.textContent = n.shown = s;
}

export function attr(n, k, v) {
  if (v == null || v === false) {
    if (n.hasAttribute(k)) n.removeAttribute(k);
  } else if (n.getAttribute(k) !== String(v)) n.setAttribute(k, v);
}

export const show = (n, yes) => { if (n.hidden === !!yes) n.hidden = !yes; };

export function gauge(n, value, max) {
  max = Math.max(max, 1e-9);
  if (n.max !== max) n.max = max;
  value = Math.round(Math.max(0, Math.min(value / max, 1)) * 200) / 200 * max; // no smaller steps: each asks for layout
  if (n.value !== value) n.value = value;
}

// list makes the children of box one for each item, in their order, by key, and those
// of one key by their order.
export function list(box, items, key, make, update) {
  const had = box.kids || new Map(), now = new Map();
  let at = box.firstElementChild;
  for (const item of items) {
    let k = key(item);
    for (let i = 2; now.has(k); i++) k = key(item) + "\n" + i;
    let n = had.get(k);
    if (!n) n = make(item);
    now.set(k, n);
    had.delete(k);
    if (n === at) at = at.nextElementSibling;
    else box.insertBefore(n, at);
    update(n, item);
  }
  for (const gone of had.values()) gone.remove();
  box.kids = now;
}

// table is a panel's table: head is [title, class] of each column.
export function table(caption, head) {
  const body = h("tbody");
  const node = h("table", {}, h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, ...head.map(([t, c]) => h("th", { scope: "col", class: c }, t)))), body);
  return { node, body };
}

export const cells = (...classes) => () => {
  const tr = h("tr", {}, ...classes.map((c) => h("td", { class: c })));
  tr.cell = [...tr.children];
  return tr;
};
