// The inputs themselves: a card each, made once, then only filtered and put in order.
const inputs = { run: 0, filter: "all", class: "", sort: "worst", page: 1000, shown: 1000, cards: new Map() };

const kind = (records, i) => {
  if (records.prediction[i] === ABSTAIN) return "abstained";
  return counts(records, i) ? "right" : "wrong";
};

// Inputs of the chosen class: by their label, or by the answer where nobody knows the label.
const ofClass = (records, i) => inputs.class === "" || (records.label[i] === UNKNOWN ? records.prediction[i] : records.label[i]) === Number(inputs.class);

const FILTERS = {
  all: { title: () => "All", keep: () => true },
  wrong: { title: () => "Wrong", keep: (records, i) => kind(records, i) === "wrong" },
  abstained: { title: () => "Abstained", keep: (records, i) => kind(records, i) === "abstained" },
  below: {
    title: () => `Certified below ${radiusText(state.radius)}`,
    keep: (records, i) => kind(records, i) === "right" && records.radius[i] < state.radius,
  },
};

// A wrong answer is the worse the larger the radius it is certified with.
const merit = (records, i) => (kind(records, i) === "wrong" ? -1 - records.radius[i] : records.radius[i]);

const SORTS = {
  worst: (records) => (i, j) => merit(records, i) - merit(records, j) || kind(records, i).localeCompare(kind(records, j)),
  best: (records) => (i, j) => merit(records, j) - merit(records, i),
  index: (records) => (i, j) => records.index[i] - records.index[j],
  draws: (records) => (i, j) => (records.draws[j] ?? -1) - (records.draws[i] ?? -1),
};

function drawFilters(records) {
  const all = [...records.index.keys()].filter((i) => ofClass(records, i));
  const made = Object.entries(FILTERS).map(([key, filter]) => {
    const count = all.filter((i) => filter.keep(records, i)).length;
    const choose = () => {
      inputs.filter = key;
      inputs.shown = inputs.page;
      drawInputs();
    };
    const attributes = { type: "button", "data-filter": key, "aria-pressed": String(inputs.filter === key), onclick: choose };
    return element("button", attributes, `${filter.title()} (${grouped(count)})`);
  });
  const focused = document.activeElement?.dataset?.filter;
  byId("filters").replaceChildren(...made);
  if (focused) byId("filters").querySelector(`[data-filter="${focused}"]`).focus();
}

function drawInputs() {
  const run = model.runs[inputs.run];
  const { records } = run;
  drawFilters(records);
  const kept = [...records.index.keys()].filter((i) => ofClass(records, i) && FILTERS[inputs.filter].keep(records, i));
  // A stable order from run to run: equal merits by index.
  kept.sort((i, j) => SORTS[inputs.sort](records)(i, j) || records.index[i] - records.index[j]);
  const shown = kept.slice(0, inputs.shown);
  byId("cards").replaceChildren(...shown.map((i) => card(run, i)));
  const some = shown.length < kept.length ? `the first ${grouped(shown.length)} of ` : "";
  byId("count").textContent = kept.length ? `Showing ${some}${grouped(kept.length)} ${model.unit}.` : `There are no such ${model.unit}.`;
  byId("more").hidden = shown.length === kept.length;
  byId("more").textContent = `Show ${grouped(Math.min(inputs.page, kept.length - shown.length))} more`;
}

function card(run, i) {
  if (!inputs.cards.has(run)) inputs.cards.set(run, []);
  const made = inputs.cards.get(run);
  if (!made[i]) made[i] = makeCard(run, i);
  return made[i];
}

function makeCard(run, i) {
  const { index, label, prediction, radius, draws, votes, reason, picture } = run.records;
  const state = kind(run.records, i);
  const said = state === "abstained" ? "abstained" : run.classes[prediction[i]];
  const truth = label[i] === UNKNOWN ? "label unknown" : `label ${run.classes[label[i]]}`;
  const verdict = state === "right" ? said : state === "wrong" ? `${said}, should be ${run.classes[label[i]]}` : `abstained, ${truth}`;
  const reach = run.inclusive ? `up to radius ${floored(radius[i], 0)}` : `below radius ${floored(radius[i], 4)}`;
  const within = state === "abstained" ? "nothing is claimed" : `${state === "wrong" ? "wrong " : ""}${reach}`;
  const facts = element("div", { class: "facts" },
    element("div", { class: "head" }, element("span", {}, `#${index[i]} · ${truth}`), draws[i] === null ? null : element("span", {}, `${grouped(draws[i])} draws`)),
    element("div", { class: "verdict" }, verdict),
    element("div", { class: "radius" }, within),
    ...voteParts(run, votes[i]),
    reason[i] ? element("div", { class: "small reason" }, reason[i]) : null);
  const image = picture[i] === null ? null : enlargeable(picture[i], `Input ${index[i]}, ${truth}`, 84);
  return element("li", { class: `card ${state}`, "data-index": index[i] }, image, facts);
}

function voteParts(run, vote) {
  if (vote === null || vote[4] === 0) return [];
  const [first, top, second, next, all] = vote;
  const width = (count) => `width: ${(100 * count) / all}%`;
  const others = next > 0 ? `, ${run.classes[second]}: ${grouped(next)}` : "";
  return [
    element("div", { class: "votebar", "aria-hidden": "true" }, element("i", { class: "first", style: width(top) }), element("i", { class: "second", style: width(next) })),
    element("div", { class: "small votes" }, `votes ${run.classes[first]}: ${grouped(top)}${others} of ${grouped(all)}`),
  ];
}

// The classes of the chosen run; a class that it has, too, stays chosen.
function drawClassChoice() {
  const run = model.runs[inputs.run];
  const { label, prediction } = run.records;
  const met = new Set(label.map((own, i) => (own === UNKNOWN ? prediction[i] : own)));
  const known = Object.entries(run.classes).filter(([number]) => met.has(Number(number)));
  if (!known.some(([number]) => number === inputs.class)) inputs.class = "";
  byId("class").replaceChildren(element("option", { value: "" }, "all"), ...known.map(([number, name]) => element("option", { value: number }, name)));
  byId("class").value = inputs.class;
  byId("class-choice").hidden = known.length < 2;
}

function setUpInputs() {
  byId("run").replaceChildren(...model.runs.map((run, number) => element("option", { value: number }, run.name)));
  byId("run-choice").hidden = model.runs.length === 1;
  byId("inputs-title").textContent = model.unit === "images" ? "The images" : "The inputs";
  drawClassChoice();
  const choose = (name) => (event) => {
    inputs[name] = name === "run" ? Number(event.target.value) : event.target.value;
    if (name === "run") drawClassChoice();
    inputs.shown = inputs.page;
    drawInputs();
  };
  byId("run").addEventListener("change", choose("run"));
  byId("sort").addEventListener("change", choose("sort"));
  byId("class").addEventListener("change", choose("class"));
  byId("more").addEventListener("click", () => {
    inputs.shown += inputs.page;
    drawInputs();
  });
}
