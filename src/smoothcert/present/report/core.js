// What the parts of the page share: the model, the reader's choices, and exact counting.
const model = JSON.parse(document.getElementById("model").textContent);
const state = { radius: model.picked, hidden: new Set() };
const listeners = [];
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const byId = (id) => document.getElementById(id);
const colour = (number) => `var(--c${number % 7})`;
const dashes = (number) => DASHES[Math.floor(number / 7) % DASHES.length];

// Text goes in as text nodes only: a name can hold anything.
function element(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") node.style.cssText = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

const ABSTAIN = -1;
const UNKNOWN = -1;

// Where nobody knows the label, every answer counts.
const counts = (records, i) => {
  const { label, prediction } = records;
  return prediction[i] !== ABSTAIN && (label[i] === UNKNOWN || prediction[i] === label[i]);
};

// The radii of the right answers, ascending, decide every count of a run.
for (const run of model.runs) {
  run.gains = Float64Array.from(run.records.radius.filter((_, i) => counts(run.records, i))).sort();
}

// A run that decided given radii says nothing beyond the largest: that is not 0%, it was not asked.
const asked = (run, radius) => run.asked === null || radius <= run.asked;

function reaching(gains, radius) {
  let low = 0;
  let high = gains.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (gains[middle] < radius) low = middle + 1;
    else high = middle;
  }
  return gains.length - low;
}

const shareText = (run, radius) => (asked(run, radius) ? `${percent(reaching(run.gains, radius), run.inputs)}%` : "not asked");

// Whole numbers, so that nothing is rounded up on the way.
const percent = (count, total) => (Math.floor((1000 * count) / total) / 10).toFixed(1);

function floored(value, digits) {
  const text = value.toFixed(digits);
  return Number(text) <= value ? text : (Number(text) - 10 ** -digits).toFixed(digits);
}

const grouped = (number) => number.toLocaleString("en-US");
const radiusText = (radius) => String(Number(radius));

// A radius on the grid of the slider, as the decimal number that is printed.
function snapped(radius) {
  const digits = Math.max(0, -Math.floor(Math.log10(model.scale.step)));
  const kept = Math.min(Math.max(radius, 0), model.scale.max);
  return Number((Math.round(kept / model.scale.step) * model.scale.step).toFixed(Math.min(digits, 100)));
}

function pick(radius) {
  if (!(radius >= 0 && Number.isFinite(radius))) return;
  state.radius = radius;
  changed();
}

function changed() {
  for (const listener of listeners) listener();
}
