// How sure the classifier is of each input: the distribution of the lower bound of p_A, which an average radius hides.
const certain = { box: byId("certainty"), least: 0.5 };

function drawCertainty() {
  const known = [...model.runs.entries()].filter(([, run]) => run.certainty !== null);
  certain.box.closest("section").hidden = known.length === 0;
  if (known.length === 0) return;
  const levels = known[0][1].certainty.below.map((one) => one.p);
  const titles = ["run", ...levels.map((level) => `below ${level}`), "median", "hard-half ACR"];
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const rows = known.map(([number, run]) => {
    const { below, median, hardHalf } = run.certainty;
    const shares = below.map((one) => element("td", {}, one.text, element("small", {}, `${one.low}–${one.high}`)));
    return element("tr", { "data-run": number }, element("th", { scope: "row" }, element("span", { class: "dot", style: `--c: ${colour(number)}` }), run.name),
      ...shares, element("td", {}, median), element("td", {}, hardHalf));
  });
  byId("hardness").replaceChildren(element("thead", {}, head), element("tbody", {}, ...rows));
  drawCertaintyChart(known.filter(([number]) => !state.hidden.has(number)));
}

function drawCertaintyChart(shown) {
  const width = Math.max(280, certain.box.clientWidth - 14);
  const height = Math.round(Math.min(360, Math.max(230, width * 0.34)));
  const [left, right, top, bottom] = [44, 16, 12, 44];
  const x = (p) => left + ((p - certain.least) / (1 - certain.least)) * (width - left - right);
  const y = (share) => top + (1 - share) * (height - top - bottom);
  const spoken = shown.map(([, run]) => `${run.name} ${run.certainty.below.map((one) => `${one.text}% below ${one.p}`).join(", ")}`).join("; ");
  const label = `Share of inputs whose lower bound of p A is at most each value, one rising step curve per run. ${spoken}.`;
  const svg = element("svg:svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
    const at = Math.round(y(share));
    svg.append(element("svg:line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }),
      element("svg:text", { x: left - 8, y: at + 4, "text-anchor": "end" }, `${share * 100}%`));
  }
  for (const p of [0.5, 0.6, 0.7, 0.8, 0.9, 1]) {
    const at = Math.round(x(p));
    svg.append(element("svg:line", { class: "grid", x1: at, x2: at, y1: height - bottom, y2: height - bottom + 5 }),
      element("svg:text", { x: at, y: height - bottom + 19, "text-anchor": "middle" }, String(p)));
  }
  svg.append(element("svg:text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "share of inputs up to each lower bound of p_A"));
  for (const [number, run] of shown) {
    const { bounds } = run.certainty;
    const first = bounds.length - reaching(bounds, certain.least);
    let path = `M${x(certain.least)} ${y(first / bounds.length).toFixed(2)}`;
    for (let i = first; i < bounds.length; i += 1) {
      if (bounds[i] !== bounds[i + 1]) path += `H${x(bounds[i]).toFixed(2)}V${y((i + 1) / bounds.length).toFixed(2)}`;
    }
    const style = `stroke: ${colour(number)}; stroke-dasharray: ${dashes(number) || "none"}`;
    svg.append(element("svg:path", { class: "rise", "data-run": number, d: `${path}H${x(1)}`, style }));
  }
  certain.box.replaceChildren(svg);
}
