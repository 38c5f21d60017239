// What is said of the runs beside their records: how they were made, what audits found, a few inputs under noise.
const facts = (run) => [["Model", run.model], ["Data", run.data], ["Made", moment(run.when)], ["Command", run.typed]].filter(([, value]) => value);
const moment = (when) => when.replace("T", " ").replace(/(\+00:00|Z)$/, " UTC"); // "2026-11-18 04:34:47 UTC"

function drawHead() {
  const known = model.runs.filter((run) => facts(run).length > 0);
  byId("head").replaceChildren(...known.map((run) => element("div", { class: "made" },
    model.runs.length === 1 ? null : element("h3", {}, run.name),
    element("dl", {}, ...facts(run).flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)])))));
}

function drawAudits() {
  const audited = model.runs.filter((run) => run.audit !== null);
  byId("audits").closest("section").hidden = audited.length === 0;
  byId("audits").replaceChildren(...audited.map((run) => element("article", { class: `audit ${run.audit.holds ? "holds" : "fails"}` },
    element("h3", {}, `${run.name}: ${run.audit.holds ? "passed" : "failed"}`),
    element("p", {}, run.audit.sentence),
    run.audit.findings.length ? element("ul", {}, ...run.audit.findings.slice(0, 20).map((finding) => element("li", {}, finding))) : null)));
}

function drawExamples() {
  const shown = model.runs.find((run) => run.examples.length > 0);
  byId("examples").closest("section").hidden = shown === undefined;
  if (shown) byId("examples").replaceChildren(...shown.examples.map((one) => exampleRow(shown, one)));
}

function exampleRow(run, one) {
  const i = run.records.index.indexOf(one.index);
  const { label, prediction, radius } = run.records;
  const wrong = counts(run.records, i) ? "" : `, should be ${run.classes[label[i]]}`;
  const said = prediction[i] === ABSTAIN ? "abstained" : `answer ${run.classes[prediction[i]]}${wrong}, radius ${floored(radius[i], 4)}`;
  const nothing = "abstained: nothing is claimed, so there is nothing to show";
  const moved = one.moved === null
    ? element("figcaption", { class: "none" }, prediction[i] === ABSTAIN ? nothing : "not drawn for radii in this norm")
    : figure(one.moved, `moved by ${one.distance}: ${run.own ? "the same answer from the classifier of #" + one.index : "proved to get the same answer"}`, one.index);
  return element("div", { class: "example" },
    figure(one.clean, `#${one.index}, as it is: ${said}`, one.index), figure(one.noisy, "with noise: one of the copies that voted", one.index), moved);
}

function figure(picture, words, index) {
  return element("figure", {}, enlargeable(picture, `Input ${index}, ${words}`, 112), element("figcaption", {}, words));
}

// A picture that a click, or the key Enter, shows large.
function enlargeable(picture, words, size) {
  const image = element("img", { src: model.pictures[picture], alt: words, loading: "lazy", decoding: "async", width: size, height: size });
  return element("button", { type: "button", class: "enlarge", title: "Enlarge", onclick: () => enlarge(picture, words) }, image);
}

function enlarge(picture, words) {
  byId("large").replaceChildren(
    element("img", { src: model.pictures[picture], alt: words }),
    element("p", { id: "large-words" }, words),
    element("button", { type: "button", class: "plain" }, "Close"));
  byId("large").showModal();
}

function setUpEnlarging() {
  byId("large").addEventListener("click", () => byId("large").close());
}
