// The curves: exact steps, a band each, a crosshair, and the picked radius.
const chart = { box: byId("chart"), cross: null };

function ticks(most, wanted) {
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((digit) => digit * power).find((candidate) => candidate >= rough * 0.999);
  const whole = model.scale.step === 1 ? Math.max(1, Math.round(step)) : step;
  const found = [];
  for (let i = 0; i * whole <= most * 1.0001; i += 1) found.push(Number((i * whole).toPrecision(6)));
  return found;
}

function layout() {
  const width = Math.max(280, chart.box.clientWidth - 14);
  const height = Math.round(Math.min(430, Math.max(260, width * 0.42)));
  const [left, right, top, bottom] = [44, 16, 22, 44];
  const most = model.scale.max * 1.02;
  return {
    width, height, left, right, top, bottom, most,
    x: (radius) => left + (Math.min(radius, most) / most) * (width - left - right),
    y: (share) => top + (1 - share) * (height - top - bottom),
    radius: (x) => ((x - left) / (width - left - right)) * most,
  };
}

// The corners of a curve: it holds `count` up to and including each radius, and drops after it.
function corners(run) {
  const found = [];
  for (const radius of new Set([0, ...run.gains, ...(run.asked === null ? [] : [run.asked])])) found.push([radius, reaching(run.gains, radius)]);
  return found;
}

// A curve falls to 0 after its last radius, or ends there, if beyond it nothing was asked.
function steps(points, at, ends) {
  let path = `M${at.x(0)} ${points[0][1].toFixed(2)}`;
  points.forEach(([radius], i) => {
    path += `H${at.x(radius).toFixed(2)}`;
    if (i + 1 < points.length) path += `V${points[i + 1][1].toFixed(2)}`;
    else if (!ends) path += `V${at.y(0).toFixed(2)}`;
  });
  return path;
}

function bandPath(run, at) {
  const reach = corners(run);
  const upper = reach.map(([radius, count]) => [at.x(radius), at.y(run.bands[count][1] / 100)]);
  const lower = reach.map(([radius, count]) => [at.x(radius), at.y(run.bands[count][0] / 100)]);
  let path = `M${at.x(0)} ${upper[0][1].toFixed(2)}`;
  upper.forEach(([x], i) => {
    path += `H${x.toFixed(2)}`;
    if (i + 1 < upper.length) path += `V${upper[i + 1][1].toFixed(2)}`;
  });
  for (let i = lower.length - 1; i >= 0; i -= 1) {
    path += `V${lower[i][1].toFixed(2)}H${(i > 0 ? lower[i - 1][0] : at.x(0)).toFixed(2)}`;
  }
  return `${path}Z`;
}

function axes(at) {
  const parts = [];
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    const y = Math.round(at.y(share));
    parts.push(element("svg:line", { class: "grid", x1: at.left, x2: at.width - at.right, y1: y, y2: y }));
    parts.push(element("svg:text", { x: at.left - 8, y: y + 4, "text-anchor": "end" }, `${share * 100}%`));
  }
  for (const radius of ticks(model.scale.max, at.width < 500 ? 5 : 9)) {
    const x = Math.round(at.x(radius));
    const [y1, y2] = [at.height - at.bottom, at.height - at.bottom + 5];
    parts.push(element("svg:line", { class: "grid", x1: x, x2: x, y1, y2 }));
    parts.push(element("svg:text", { x, y: at.height - at.bottom + 19, "text-anchor": "middle" }, String(radius)));
  }
  const norms = [...new Set(model.runs.map((run) => run.norm).filter(Boolean))].join(" and ");
  const middle = (at.left + at.width - at.right) / 2;
  const name = `certified ${norms} radius`.replace("  ", " ");
  parts.push(element("svg:text", { x: middle, y: at.height - 6, "text-anchor": "middle" }, name));
  return parts;
}

function drawChart() {
  const at = layout();
  const label = `Certified accuracy over the radius, one falling step curve per run. ${spoken()}`;
  const svg = element("svg:svg", { viewBox: `0 0 ${at.width} ${at.height}`, height: at.height, role: "img", "aria-label": label });
  svg.append(...axes(at));
  const shown = [...model.runs.entries()].filter(([number]) => !state.hidden.has(number));
  for (const [number, run] of shown) {
    svg.append(element("svg:path", { class: "band", "data-run": number, d: bandPath(run, at), style: `fill: ${colour(number)}` }));
  }
  for (const [number, run] of shown) {
    const points = corners(run).map(([radius, count]) => [radius, at.y(count / run.inputs)]);
    const style = `stroke: ${colour(number)}; stroke-dasharray: ${dashes(number) || "none"}`;
    svg.append(element("svg:path", { class: "curve", "data-run": number, d: steps(points, at, run.asked !== null), style }));
    if (run.asked !== null) {
      const title = element("svg:title", {}, `${run.name} was asked about radii up to ${radiusText(run.asked)}`);
      const [x, y] = [at.x(run.asked), points.at(-1)[1]];
      svg.append(element("svg:rect", { class: "end", "data-run": number, x: x - 4, y: y - 4, width: 8, height: 8, style: `fill: ${colour(number)}` }, title));
    }
  }
  const x = at.x(state.radius);
  const edge = x > at.width - 90 ? "end" : "start";
  svg.append(
    element("svg:line", { class: "picked", x1: x, x2: x, y1: at.top - 6, y2: at.height - at.bottom }),
    element("svg:text", { class: "pickedlabel", x: x + (edge === "end" ? -5 : 5), y: at.top - 8, "text-anchor": edge }, `radius ${radiusText(state.radius)}`),
    ...dots(at, state.radius),
  );
  chart.cross = element("svg:g", { class: "hover" });
  svg.append(chart.cross);
  svg.addEventListener("pointermove", (event) => hover(event, svg, at));
  svg.addEventListener("pointerleave", unhover);
  svg.addEventListener("click", (event) => pick(snapped(at.radius(inside(event, svg, at)))));
  chart.box.replaceChildren(svg);
}

const inside = (event, svg, at) => {
  const box = svg.getBoundingClientRect();
  return ((event.clientX - box.left) / box.width) * at.width;
};

function dots(at, radius) {
  return [...model.runs.entries()].filter(([number, run]) => !state.hidden.has(number) && asked(run, radius)).map(([number, run]) => element("svg:circle", {
    cx: at.x(radius), cy: at.y(reaching(run.gains, radius) / run.inputs), r: 4, style: `fill: ${colour(number)}`,
  }));
}

function spoken() {
  const parts = model.runs.map((run) => `${run.name} ${shareText(run, state.radius)}`);
  return `At radius ${radiusText(state.radius)}: ${parts.join(", ")}.`;
}

function hover(event, svg, at) {
  const radius = snapped(at.radius(inside(event, svg, at)));
  const x = at.x(radius);
  chart.cross.replaceChildren(
    element("svg:line", { class: "cross", x1: x, x2: x, y1: at.top, y2: at.height - at.bottom }), ...dots(at, radius),
  );
  const rows = [...model.runs.entries()].filter(([number]) => !state.hidden.has(number)).map(([number, run]) => {
    const dot = element("span", { class: "dot", style: `--c: ${colour(number)}` });
    return element("tr", {}, element("td", {}, dot, run.name), element("td", { class: "figure" }, shareText(run, radius)));
  });
  const tip = element("div", { class: "tip" }, element("strong", {}, `radius ${radiusText(radius)}`), element("table", {}, ...rows));
  chart.box.querySelector(".tip")?.remove();
  chart.box.append(tip);
  const scaled = (x / at.width) * svg.clientWidth;
  tip.style.left = `${scaled + tip.offsetWidth + 30 < svg.clientWidth ? scaled + 22 : Math.max(4, scaled - tip.offsetWidth - 8)}px`;
}

function unhover() {
  chart.cross.replaceChildren();
  chart.box.querySelector(".tip")?.remove();
}

function drawLegend() {
  byId("legend").replaceChildren(...model.runs.map((run, number) => {
    const line = element("svg:line", {
      x1: 0, x2: 26, y1: 5, y2: 5, "stroke-width": 3, style: `stroke: ${colour(number)}; stroke-dasharray: ${dashes(number) || "none"}`,
    });
    const toggle = (event) => {
      if (!state.hidden.delete(number)) state.hidden.add(number);
      event.currentTarget.setAttribute("aria-pressed", String(!state.hidden.has(number)));
      changed();
    };
    return element("button", { type: "button", "aria-pressed": String(!state.hidden.has(number)), onclick: toggle },
      element("svg:svg", { width: 26, height: 10, "aria-hidden": "true" }, line), run.name, element("small", {}, `ACR ${run.acr.text}`));
  }));
}
