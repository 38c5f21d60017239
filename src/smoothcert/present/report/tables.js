// The headlines, the comparison, the classes and the configuration.
const table = { key: null, descending: true, everyClass: false };
const MANY_CLASSES = 24;

function drawWarnings() {
  byId("warnings").hidden = model.warnings.length === 0;
  byId("warning-list").replaceChildren(...model.warnings.map((warning) => element("li", {}, warning)));
}

function drawHeadlines() {
  byId("headlines").replaceChildren(...model.runs.map((run, number) => {
    const of = run.planned !== null && run.planned !== run.inputs ? ` (${run.planned} planned)` : "";
    const facts = [`ACR ${run.acr.text}`, run.alpha === null ? "" : `alpha ${run.alpha}`, run.noise, run.procedure, `inputs ${run.subset}`];
    return element("article", { class: "headline", style: `--c: ${colour(number)}` },
      element("h3", {}, run.name),
      ...(asked(run, state.radius) ? answered(run, of) : unasked(run)),
      element("p", { class: "meta" }, facts.filter(Boolean).join(" · ")),
      run.beside ? element("p", { class: "beside" }, run.beside) : null,
      element("p", { class: "claims" }, run.claims),
      ...run.warnings.map((warning) => element("p", { class: "warning" }, `Warning: ${warning}`)),
      common(run.note) ? null : element("p", { class: "note" }, `Note: ${run.note}`));
  }));
}

function answered(run, of) {
  const count = reaching(run.gains, state.radius);
  const share = percent(count, run.inputs);
  const [low, high] = run.bands[count];
  const sure = run.confidence === null ? "" : ` with ${run.confidence}% confidence`;
  return [
    element("p", { class: "big", "aria-hidden": "true" }, share, element("small", {}, "%")),
    element("p", { class: "sentence" },
      `Certified at ${run.norm} radius ${radiusText(state.radius)}${sure}: ${share}% of ${grouped(run.inputs)} ${model.unit}${of}`.replace("  ", " ")),
    element("p", { class: "meta range" }, `${grouped(count)} of ${grouped(run.inputs)}; 95% interval ${low.toFixed(1)} to ${high.toFixed(1)}%`),
  ];
}

function unasked(run) {
  return [
    element("p", { class: "big", "aria-hidden": "true" }, "not asked"),
    element("p", { class: "sentence" },
      `Nothing is known at ${run.norm} radius ${radiusText(state.radius)}: this run was asked about radii up to ${radiusText(run.asked)}`.replace("  ", " ")),
  ];
}

// A note of all runs stands once, below.
const common = (note) => note === null || (model.runs.length > 1 && model.runs.every((run) => run.note === note));

function columns() {
  const at = (i) => (run) => run.accuracy[i];
  const picked = (run) => {
    if (!asked(run, state.radius)) return { value: null, text: "not asked" };
    const count = reaching(run.gains, state.radius);
    const [low, high] = run.bands[count];
    return { value: count / run.inputs, text: percent(count, run.inputs), low: low.toFixed(1), high: high.toFixed(1) };
  };
  const all = [
    { key: "name", title: "run", of: (run) => ({ value: run.name, text: run.name }), up: true },
    { key: "acr", title: "ACR", of: (run) => run.acr },
    { key: "ahead", title: `${model.runs[0].name} is ahead by`, of: (run) => run.ahead, up: true },
    ...model.radii.map((radius, i) => ({ key: `r${i}`, title: radiusText(radius), of: at(i), radius: true })),
    { key: "picked", title: `at ${radiusText(state.radius)}`, of: picked, radius: true },
    { key: "abstained", title: "abstained", of: (run) => run.abstained, up: true },
    { key: "draws", title: "draws", of: (run) => run.draws, factor: "sampleRF", up: true },
    { key: "seconds", title: "seconds", of: (run) => run.seconds, factor: "timeRF", up: true },
  ];
  return all.filter((column) => model.runs.some((run) => column.of(run).value !== null));
}

function ordered(rows, column) {
  if (!column) return rows;
  const sign = table.descending ? -1 : 1;
  return [...rows].sort(([, a], [, b]) => {
    const [x, y] = [column.of(a).value, column.of(b).value];
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
  });
}

function drawComparison() {
  const all = columns();
  const focused = document.activeElement?.closest?.("#comparison th")?.dataset.key;
  const head = element("tr", {}, ...all.map((column) => heading(column)));
  const rows = ordered([...model.runs.entries()], all.find((column) => column.key === table.key));
  const body = rows.map(([number, run]) => element("tr", { "data-run": number }, ...all.map((column) => cell(column, run, number))));
  byId("published").hidden = !all.some((column) => column.key === "ahead");
  byId("comparison").replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
  if (focused) byId("comparison").querySelector(`th[data-key="${focused}"] button`)?.focus();
}

function heading(column) {
  const sorted = column.key === table.key ? (table.descending ? "descending" : "ascending") : null;
  const sort = () => {
    table.descending = column.key === table.key ? !table.descending : !column.up;
    table.key = column.key;
    drawComparison();
  };
  const label = column.radius ? `certified accuracy at radius ${column.title.replace("at ", "")}: sort` : `${column.title}: sort`;
  const button = element("button", { type: "button", onclick: sort, "aria-label": label }, column.title);
  const attributes = { scope: "col", "data-key": column.key, "aria-sort": sorted, class: column.key === "picked" ? "atpick" : null };
  return element("th", attributes, button);
}

function cell(column, run, number) {
  const value = column.of(run);
  if (column.key === "name") {
    const dot = element("span", { class: "dot", style: `--c: ${colour(number)}` });
    const about = [run.noise, `${grouped(run.inputs)} ${model.unit}: ${run.subset}`].filter(Boolean).join(", ");
    return element("th", { scope: "row" }, dot, run.name, element("small", {}, about));
  }
  const to = column.key === "ahead" ? " to " : "–"; // its ends have signs
  const ends = value.low === undefined || value.text === "" ? null : element("small", {}, `${value.low}${to}${value.high}`);
  const saved = column.factor && run[column.factor].text;
  const factor = saved ? element("small", {}, `${column.factor.replace(/^./, (letter) => letter.toUpperCase())} ${saved}`) : null;
  return element("td", { class: column.key === "picked" ? "atpick" : null, "data-key": column.key }, value.text || "–", ends, factor);
}

// Per class: the radii of its right answers and how many inputs it has, per run.
function classGains(run) {
  if (run.byClass) return run.byClass;
  run.byClass = new Map();
  const { label, radius } = run.records;
  label.forEach((own, i) => {
    if (own === UNKNOWN) return;
    if (!run.byClass.has(own)) run.byClass.set(own, { total: 0, gains: [] });
    const entry = run.byClass.get(own);
    entry.total += 1;
    if (counts(run.records, i)) entry.gains.push(radius[i]);
  });
  for (const entry of run.byClass.values()) entry.gains.sort((a, b) => a - b);
  return run.byClass;
}

function drawClasses() {
  const runs = [...model.runs.entries()].filter(([number]) => !state.hidden.has(number));
  const labels = [...new Set(runs.flatMap(([, run]) => [...classGains(run).keys()]))].sort((a, b) => a - b);
  const name = (label) => runs.map(([, run]) => run.classes[label]).find((known) => known !== undefined);
  const many = labels.length > MANY_CLASSES && !table.everyClass;
  const worst = (label) => Math.min(...runs.map(([, run]) => {
    const entry = run.byClass.get(label);
    return entry && asked(run, state.radius) ? reaching(entry.gains, state.radius) / entry.total : 1;
  }));
  const shown = many ? [...labels].sort((a, b) => worst(a) - worst(b)).slice(0, MANY_CLASSES) : labels;
  byId("classes").classList.toggle("short", labels.every((label) => name(label).length < 3));
  byId("classes-at").textContent = `certified at radius ${radiusText(state.radius)}${many ? `, the ${MANY_CLASSES} weakest` : ""}`;
  byId("classes").replaceChildren(...shown.map((label) => element("div", { class: "class", "data-class": label },
    element("span", { class: "name" }, name(label)), element("div", {}, ...runs.map(([number, run]) => bar(run, number, label))))));
  byId("classes").closest("section").hidden = labels.length === 0;
  byId("more-classes").hidden = labels.length <= MANY_CLASSES;
  byId("more-classes").textContent = many ? `Show all ${labels.length} classes` : `Show the ${MANY_CLASSES} weakest`;
}

function bar(run, number, label) {
  const entry = run.byClass.get(label);
  if (!entry) return null;
  if (!asked(run, state.radius)) {
    return element("div", { class: "bar", title: run.name, style: `--c: ${colour(number)}` },
      element("span", { class: "track" }), element("span", { class: "figure" }, "not asked"));
  }
  const count = reaching(entry.gains, state.radius);
  const share = percent(count, entry.total);
  return element("div", { class: "bar", title: run.name, style: `--c: ${colour(number)}` },
    element("span", { class: "track" }, element("span", { class: "fill", style: `width: ${share}%` })),
    element("span", { class: "figure" }, `${share}% (${count}/${entry.total})`));
}

function drawConfiguration() {
  if (model.command) byId("command").replaceChildren(element("p", { class: "fine" }, "To make this report again:"), element("pre", {}, model.command));
  byId("configuration").replaceChildren(...model.runs.map((run, number) => element("details", { open: model.runs.length === 1 ? "" : null },
    element("summary", {}, element("span", { class: "dot", style: `--c: ${colour(number)}` }), run.name),
    run.command ? element("p", { class: "fine" }, "To make this run again, given the model and the data:") : null,
    run.command ? element("pre", {}, run.command) : null,
    run.verify ? element("p", { class: "fine" }, "To check it (with --json > audit.json, a report shows the result: --audit audit.json):") : null,
    run.verify ? element("pre", {}, run.verify) : null,
    element("dl", {}, ...run.settings.flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])))));
}
