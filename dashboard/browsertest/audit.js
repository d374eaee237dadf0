(() => {
  const found = [], at = (n) => n.outerHTML.slice(0, 110).replace(/\s+/g, " ");
  const say = (what, n) => found.push(what + (n ? ": " + at(n) : ""));
  const seen = (n) => n.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && n.getClientRects().length > 0 && !n.closest("[aria-hidden=true]");
  const all = (sel) => [...document.querySelectorAll(sel)].filter(seen);

  if (!document.documentElement.lang) say("no language");
  if (!document.title) say("no title");
  if (all("main").length !== 1) say("no main, or several");
  if (all("h1").length !== 1) say(all("h1").length + " h1");
  let level = 0;
  for (const h of all("h1, h2, h3, h4")) {
    const l = +h.tagName[1];
    if (l > level + 1) say("a heading skips a level", h);
    level = l;
  }
  const ids = new Set();
  for (const n of document.querySelectorAll("[id]")) {
    if (ids.has(n.id)) say("id there twice", n);
    ids.add(n.id);
  }
  const named = (n) => n.ariaLabel?.trim() || n.textContent.trim() || n.labels?.length || n.getAttribute("alt") != null && n.tagName === "IMG" ||
    (n.getAttribute("aria-labelledby") || "").split(" ").some((id) => id && document.getElementById(id)?.textContent.trim());
  for (const n of all("a, button, input, select, canvas, progress, img, [role=img], [role=group], section, dialog")) if (!named(n)) say("no name", n);
  for (const t of all("table")) if (!t.querySelector("th")) say("a table has no header", t);
  for (const th of all("th")) if (!th.scope) say("a header without scope", th);
  for (const n of all("[tabindex]")) if (n.tabIndex > 0) say("an order of its own", n);
  for (const n of all("main *")) {
    const s = getComputedStyle(n);
    const scrolls = /auto|scroll/.test(s.overflowX) && n.scrollWidth > n.clientWidth + 1 || /auto|scroll/.test(s.overflowY) && n.scrollHeight > n.clientHeight + 1;
    if (scrolls && n.tabIndex < 0 && !n.querySelector("a, button, input")) say("scrolls, but not by Tab", n);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) say("the page is too wide: " + document.documentElement.scrollWidth + " of " + innerWidth);

  // Contrast of every text with what is behind it.
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (c) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = c;
    pen.fillRect(0, 0, 1, 1);
    const d = pen.getImageData(0, 0, 1, 1).data;
    return [d[0], d[1], d[2], d[3] / 255];
  };
  const over = (a, b) => [0, 1, 2].map((i) => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const behind = (n) => {
    const layers = [];
    for (; n; n = n.parentElement) {
      const c = rgba(getComputedStyle(n).backgroundColor);
      if (c[3]) layers.push(c);
      if (c[3] === 1) break;
    }
    return layers.reduceRight((under, c) => over(c, under), [255, 255, 255, 1]);
  };
  const light = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  for (let t; (t = words.nextNode());) {
    const n = t.parentElement;
    if (!t.data.trim() || !seen(n) || n.closest("script, style, noscript, .hidden, .skip") || n.closest(":disabled")) continue;
    const s = getComputedStyle(n), back = behind(n), front = over(rgba(s.color), back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    const px = parseFloat(s.fontSize), large = px >= 24 || px >= 18.66 && s.fontWeight >= 700;
    const ratio = (a + .05) / (b + .05);
    const key = n.className + s.color;
    if (ratio < (large ? 3 : 4.5) && !told.has(key)) {
      told.add(key);
      say(`contrast of ${ratio.toFixed(2)}`, n);
    }
  }
  return found.join("\n");
})()
