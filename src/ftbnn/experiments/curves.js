// Training curves to hover: each <div class="chart"> holds its data as JSON (experiments/curves_page.py).
// SVG is written as text, for the page's own parser: nothing is loaded, and without this script the pictures remain.
"use strict";
for (const chart of document.querySelectorAll(".chart")) {
  const { scores, series } = JSON.parse(chart.querySelector("script").textContent);
  const NEAREST = 10, EDGE = { left: 44, right: 12, top: 8, bottom: 34 }, HEIGHT = 320;
  const hidden = new Set();
  let score = scores[0];

  const tabs = chart.appendChild(document.createElement("div"));
  const plot = chart.appendChild(document.createElement("div"));
  const tip = plot.appendChild(document.createElement("div"));
  const legend = chart.appendChild(document.createElement("div"));
  tabs.className = "tabs";
  plot.className = "plot";
  tip.className = "tip";
  legend.className = "legend";
  const picture = plot.appendChild(document.createElement("div"));

  const colour = (k) => `hsl(${(k * 137.5 + 210) % 360} 65% ${45 + 12 * (k % 2)}%)`;
  const shown = () => series.map((one, k) => ({ ...one, k, curve: one.curves[score] }))
    .filter((one) => one.curve && !hidden.has(one.k));

  function button(parent, text, isOn, press) {
    const made = parent.appendChild(document.createElement("button"));
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-pressed", isOn);
    made.onclick = press;
    return made;
  }

  function ticks(low, high, most) {  // at round numbers
    const raw = (high - low) / most || 1, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw);
    const found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(+at.toPrecision(6));
    return found;
  }

  let place = null;  // of an epoch and a value, in pixels
  function draw() {
    const lines = shown(), width = Math.max(plot.clientWidth, 240);
    const values = lines.flatMap((one) => [...one.curve.low, ...one.curve.high]);
    const last = Math.max(2, ...lines.map((one) => one.curve.mean.length));
    const low = Math.min(...values), high = Math.max(...values), room = (high - low) * 0.04 || 1;
    const x = (epoch) => EDGE.left + (epoch - 1) / (last - 1) * (width - EDGE.left - EDGE.right);
    const y = (value) => EDGE.top + (high + room - value) / (high - low + 2 * room) * (HEIGHT - EDGE.top - EDGE.bottom);
    place = lines.length ? { x, y, last, width } : null;
    const parts = [];
    if (lines.length) {
      for (const at of ticks(low, high, 5)) {
        parts.push(`<path class="grid" d="M${EDGE.left} ${y(at)}H${width - EDGE.right}"/>`);
        parts.push(`<text x="${EDGE.left - 6}" y="${y(at) + 4}" text-anchor="end">${at}</text>`);
      }
      for (const at of ticks(1, last, Math.min(8, last - 1)).filter(Number.isInteger)) {
        parts.push(`<text x="${x(at)}" y="${HEIGHT - EDGE.bottom + 16}" text-anchor="middle">${at}</text>`);
      }
    }
    parts.push(`<text x="${width / 2}" y="${HEIGHT - 3}" text-anchor="middle">epoch</text>`);
    const points = (curve) => curve.map((value, k) => `${x(k + 1).toFixed(1)},${y(value).toFixed(1)}`);
    for (const { k, seeds, curve } of lines) {
      if (seeds > 1) {
        const around = [...points(curve.high), ...points(curve.low).reverse()].join(" ");
        parts.push(`<polygon points="${around}" fill="${colour(k)}" opacity=".15"/>`);
      }
      parts.push(`<polyline data-k="${k}" points="${points(curve.mean).join(" ")}" stroke="${colour(k)}"/>`);
    }
    parts.push('<path class="cross" d=""/>');
    picture.innerHTML = `<svg width="${width}" height="${HEIGHT}" role="img" aria-label="${score}">${parts.join("")}</svg>`;
    tip.hidden = true;
  }

  function point(event) {
    if (!place) return;
    const box = plot.getBoundingClientRect(), at = { x: event.clientX - box.left, y: event.clientY - box.top };
    const share = (at.x - EDGE.left) / (place.width - EDGE.left - EDGE.right);
    const epoch = Math.min(place.last, Math.max(1, Math.round(1 + share * (place.last - 1))));
    const near = shown().filter((one) => one.curve.mean.length >= epoch)
      .map((one) => ({ ...one, value: one.curve.mean[epoch - 1] }))
      .sort((a, b) => Math.abs(place.y(a.value) - at.y) - Math.abs(place.y(b.value) - at.y)).slice(0, NEAREST);
    if (!near.length) return;
    const nearest = near[0].k;
    for (const line of picture.querySelectorAll("polyline")) line.classList.toggle("near", +line.dataset.k === nearest);
    picture.querySelector(".cross").setAttribute("d", `M${place.x(epoch)} ${EDGE.top}V${HEIGHT - EDGE.bottom}`);
    tip.textContent = `epoch ${epoch}`;
    for (const one of near.sort((a, b) => b.value - a.value)) {
      const line = tip.appendChild(document.createElement("div"));
      line.style.setProperty("--dot", colour(one.k));
      line.className = one.k === nearest ? "near" : "";
      const { low, high } = one.curve;
      const around = one.seeds > 1 ? ` [${low[epoch - 1]} to ${high[epoch - 1]}]` : "";
      line.textContent = `${one.label}: ${one.value}${around}`;
    }
    tip.hidden = false;
    const right = at.x > place.width / 2;
    tip.style.left = right ? "" : `${Math.round(place.x(epoch) + 10)}px`;
    tip.style.right = right ? `${Math.round(place.width - place.x(epoch) + 10)}px` : "";
  }

  function all() {
    tabs.replaceChildren();
    for (const name of scores) button(tabs, name, name === score, () => { score = name; all(); });
    legend.replaceChildren();
    for (const [k, one] of series.entries()) {
      if (!one.curves[score]) continue;
      const toggle = () => { hidden.delete(k) || hidden.add(k); all(); };
      const made = button(legend, `${one.label}, ${one.seeds} seed${one.seeds > 1 ? "s" : ""}`, !hidden.has(k), toggle);
      made.style.setProperty("--dot", colour(k));
    }
    draw();
  }

  plot.onpointermove = point;
  plot.onpointerdown = point;
  plot.onpointerleave = (event) => event.pointerType === "mouse" && draw();  // a finger leaves, what it showed stays
  new ResizeObserver(draw).observe(chart);
  all();
}
