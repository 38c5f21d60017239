// Puts the page together and keeps it in step with the picked radius.
const slider = byId("radius-slider");
const number = byId("radius-number");

function drawPicker() {
  slider.value = state.radius;
  slider.setAttribute("aria-valuetext", spoken());
  if (document.activeElement !== number) number.value = radiusText(state.radius);
  for (const chip of byId("radius-chips").children) chip.setAttribute("aria-pressed", String(Number(chip.value) === state.radius));
}

function setUpPicker() {
  slider.max = model.scale.max;
  slider.step = model.scale.step;
  slider.addEventListener("input", () => pick(snapped(Number(slider.value))));
  number.addEventListener("input", () => number.value !== "" && pick(Number(number.value)));
  number.addEventListener("blur", () => { number.value = radiusText(state.radius); });
  byId("radius-chips").append(...model.radii.map((radius) => element("button", { type: "button", value: radius, onclick: () => pick(radius) }, radiusText(radius))));
}

function setUpWords() {
  const sizes = [...new Set(model.runs.map((run) => grouped(run.inputs)))];
  const data = [...new Set(model.runs.map((run) => run.data).filter(Boolean))].join(", ");
  const runs = model.runs.length === 1 ? model.runs[0].name : `${model.runs.length} runs`;
  byId("about").textContent = [runs, data, `${sizes.join(", ")} ${model.unit}`].filter(Boolean).join(" · ");
  byId("fine").textContent = "Certified at a radius means: the answer is right, and no smaller change alters it"
    + (model.runs.some((run) => run.inclusive) ? "; in ℓ₀, which counts pixels, none of that norm either. " : ". ")
    + "Wrong answers and abstentions count as not certified. Confidence is per input: each certificate is wrong with probability at "
    + "most alpha. The 95% interval is about something else: how this share might differ on other inputs like these. All claims are "
    + "rounded down.";
  const note = model.runs[0].note;
  if (model.runs.length > 1 && note !== null && common(note)) byId("fine").before(element("p", { class: "note" }, `Note: ${note}.`));
  byId("foot").textContent = `Made by smoothcert ${model.version}. This file needs no network.`;
}

function draw() {
  drawPicker();
  drawHeadlines();
  drawChart();
  drawComparison();
  drawCertainty();
  drawClasses();
  if (inputs.filter === "below") drawInputs();
  else drawFilters(model.runs[inputs.run].records);
}

setUpWords();
setUpPicker();
setUpInputs();
setUpEnlarging();
drawHead();
drawAudits();
drawExamples();
drawWarnings();
drawLegend();
drawConfiguration();
draw();
drawInputs();
listeners.push(draw);
byId("more-classes").addEventListener("click", () => {
  table.everyClass = !table.everyClass;
  drawClasses();
});
new ResizeObserver(() => drawChart()).observe(byId("chart"));
new ResizeObserver(() => drawCertainty()).observe(byId("certainty"));
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));
