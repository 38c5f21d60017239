"use strict";
// Draw or drop an image, ask about it, watch the votes, perturb it and ask again. Nothing is fetched from elsewhere.
const $ = (id) => document.getElementById(id);
const pad = $("pad"), ink = pad.getContext("2d", { willReadFrequently: true });
const PEN = 26; // on the drawing field of 280 by 280
const STRENGTHS = ["sigma", "half_width", "scale", "keep"]; // what noises call theirs
let model = null, shape = [1, 28, 28], names = [], asked = null, answer = null, drawn = false, under_way = null;
let pen = { x: 140, y: 140, down: false };

function say(text) { $("said").textContent = text; }

async function ask(path, options = {}) {
  const headers = $("token").value ? { Authorization: `Bearer ${$("token").value}` } : {};
  const response = await fetch(path, { ...options, headers });
  if (response.status === 401) $("token-field").hidden = false;
  if (!response.ok) {
    const said = await response.json().catch(() => ({ error: `the server said ${response.status}` }));
    throw new Error(said.error);
  }
  return response;
}

async function start() {
  clear();
  const response = await ask(`/v2/models/${encodeURIComponent(document.body.dataset.model)}`);
  model = await response.json();
  shape = model.inputs[0].shape.slice(1);
  names = model.parameters.class_names;
  const { noise, procedure } = model.parameters;
  const strength = Object.entries(noise).filter(([name]) => STRENGTHS.includes(name));
  const radius = procedure.radius === undefined ? "" : `, radius ${[procedure.radius].flat().join(", ")}`;
  $("how").textContent = `${noise.name} noise, ${strength.map((pair) => pair.join(" ")).join(", ")}; ` +
    `procedure ${procedure.name}${radius}; wrong with probability at most ${procedure.alpha}.`;
  $("key").textContent = model.parameters.key;
  $("norm").textContent = noise.norm;
  showVotes(new Array(names.length).fill(0));
}

// --- the drawing field

function clear() {
  ink.fillStyle = "#000";
  ink.fillRect(0, 0, 280, 280);
  drawn = false;
}

function place(event) {
  const box = pad.getBoundingClientRect();
  return { x: (event.clientX - box.left) * 280 / box.width, y: (event.clientY - box.top) * 280 / box.height };
}

function line(from, to) {
  ink.strokeStyle = "#fff";
  ink.lineWidth = PEN;
  ink.lineCap = ink.lineJoin = "round";
  ink.beginPath();
  ink.moveTo(from.x, from.y);
  ink.lineTo(to.x, to.y);
  ink.stroke();
  drawn = true;
}

pad.addEventListener("pointerdown", (event) => {
  pad.setPointerCapture(event.pointerId);
  pen = { ...place(event), down: true };
  line(pen, pen);
});
pad.addEventListener("pointermove", (event) => {
  if (!pen.down || !event.buttons) return;
  const next = place(event);
  line(pen, next);
  pen = { ...next, down: true };
});
pad.addEventListener("pointerup", () => { pen.down = false; });
pad.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-14, 0], ArrowRight: [14, 0], ArrowUp: [0, -14], ArrowDown: [0, 14] }[event.key];
  if (event.key === " ") {
    pen.down = !pen.down;
    if (pen.down) line(pen, pen);
    say(pen.down ? "The pen draws." : "The pen is lifted.");
  } else if (step) {
    const next = { x: Math.min(266, Math.max(14, pen.x + step[0])), y: Math.min(266, Math.max(14, pen.y + step[1])) };
    if (pen.down) line(pen, next);
    pen = { ...next, down: pen.down };
  } else if (event.key === "Enter") {
    certify();
  } else return;
  event.preventDefault();
});

for (const kind of ["dragenter", "dragover"]) {
  pad.addEventListener(kind, (event) => { event.preventDefault(); pad.classList.add("over"); });
}
pad.addEventListener("dragleave", () => pad.classList.remove("over"));
pad.addEventListener("drop", (event) => {
  event.preventDefault();
  pad.classList.remove("over");
  if (event.dataTransfer.files[0]) take(event.dataTransfer.files[0]);
});
$("file").addEventListener("change", (event) => { if (event.target.files[0]) take(event.target.files[0]); });
$("clear").addEventListener("click", () => { clear(); say("The field is empty."); });

let dropped = null; // an image that was dropped is taken whole; what is drawn is cut out and centred

async function take(file) {
  try {
    dropped = await createImageBitmap(file);
  } catch {
    say("This file is not an image that the browser can read.");
    return;
  }
  clear();
  ink.imageSmoothingEnabled = dropped.width > 280;
  ink.drawImage(dropped, 0, 0, 280, 280);
  certify();
}
pad.addEventListener("pointerdown", () => { dropped = null; });
$("clear").addEventListener("click", () => { dropped = null; });

// --- pixels as the model takes them: a PGM or PPM file, exact to the last level

function pixels(source, from) {
  const [, height, width] = shape;
  const small = document.createElement("canvas");
  small.width = width;
  small.height = height;
  const brush = small.getContext("2d", { willReadFrequently: true });
  brush.imageSmoothingEnabled = source.width !== width || source.height !== height;
  brush.imageSmoothingQuality = "high";
  brush.fillRect(0, 0, width, height);
  const { x, y, size } = from;
  brush.drawImage(source, x, y, size[0], size[1], 0, 0, width, height);
  return brush.getImageData(0, 0, width, height).data;
}

function square() {
  // What was drawn, centred, as large as digits of MNIST are: 20 of 28 pixels.
  const { data } = ink.getImageData(0, 0, 280, 280);
  let [left, top, right, bottom] = [280, 280, 0, 0];
  for (let i = 0; i < 280 * 280; i++) {
    if (data[4 * i] < 32) continue;
    const x = i % 280, y = Math.floor(i / 280);
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x), Math.max(bottom, y)];
  }
  if (left > right) return { x: 0, y: 0, size: [280, 280] };
  const size = Math.max(right - left, bottom - top, 40) * 1.4;
  return { x: (left + right - size) / 2, y: (top + bottom - size) / 2, size: [size, size] };
}

function encode(rgba) {
  const [channels, height, width] = shape;
  const head = new TextEncoder().encode(`P${channels === 1 ? 5 : 6}\n${width} ${height}\n255\n`);
  const body = new Uint8Array(channels * width * height);
  for (let i = 0; i < width * height; i++) {
    const [r, g, b] = [rgba[4 * i], rgba[4 * i + 1], rgba[4 * i + 2]];
    if (channels === 1) body[i] = r === g && g === b ? r : Math.round(0.299 * r + 0.587 * g + 0.114 * b);
    else body.set([r, g, b], 3 * i);
  }
  return new Blob([head, body]);
}

function image() {
  if (dropped) return encode(pixels(dropped, { x: 0, y: 0, size: [dropped.width, dropped.height] }));
  return encode(pixels(pad, square()));
}

// --- the question

function settings() {
  const wanted = new URLSearchParams();
  if ($("radius").value.trim()) wanted.set("radius", $("radius").value.trim());
  if ($("n").value.trim()) wanted.set("n", $("n").value.trim());
  return wanted.size ? `?${wanted}` : "";
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const whole = rest.split("\n\n");
    rest = whole.pop();
    for (const one of whole) {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/s.exec(one);
      yield [name, JSON.parse(data)];
    }
  }
}

async function certify() {
  if (!dropped && !drawn) { say("Draw something first, or drop an image."); return; }
  await started; // until then nobody knows the shape of an image
  if (under_way) under_way.abort();
  const own = under_way = new AbortController();
  asked = image();
  answer = null;
  $("perturb").disabled = true;
  $("class").textContent = "…";
  $("class").className = "";
  $("claim").textContent = "Noisy copies are voting.";
  $("reason").textContent = "";
  say("");
  noisy();
  try {
    const response = await ask(`/certify/live${settings()}`, { method: "POST", body: asked, signal: own.signal });
    for await (const [name, data] of events(response)) {
      if (name === "votes") showVotes(Object.values(data).reduce((a, b) => a.map((v, i) => v + b[i])));
      else if (name === "answer") show(data);
      else throw new Error(data.error);
    }
  } catch (error) {
    if (error.name === "AbortError") return;
    $("class").textContent = "?";
    $("claim").textContent = "No answer.";
    say(error.message);
  }
}

function show(found) {
  answer = found;
  const name = found.abstained ? "–" : found.class_name;
  $("class").textContent = name;
  $("class").className = found.abstained ? "bad" : "good";
  // Rounded down: what is shown must not exceed what is proved.
  const radius = (Math.floor(found.radius * 1000) / 1000).toFixed(3);
  $("claim").textContent = found.abstained
    ? "It abstains: nothing can be claimed."
    : `No change with an ${found.norm} norm below ${radius} can alter this answer.`;
  $("reason").textContent = `${found.reason}. Scope: ${found.scope}; wrong with probability at most ${found.alpha}; ` +
    `${found.draws} draws; receipt ${found.receipt ? found.receipt.slice(0, 12) : "none"}.`;
  showVotes(found.votes);
  $("perturb").disabled = false;
  $("size").max = Math.max(1, Math.ceil(found.radius * 30) / 10).toFixed(2);
  sized();
  again();
}

function showVotes(votes) {
  const all = votes.reduce((a, b) => a + b, 0), list = $("votes");
  $("drawn").textContent = all ? `(${all})` : "";
  const order = votes.map((_, i) => i).sort((a, b) => votes[b] - votes[a] || a - b).slice(0, 10).sort((a, b) => a - b);
  list.replaceChildren(...order.map((i) => {
    const row = document.createElement("li"), bar = document.createElement("meter");
    const [name, count] = [document.createElement("span"), document.createElement("span")];
    name.textContent = names[i];
    name.title = names[i];
    bar.max = Math.max(1, all);
    bar.value = votes[i];
    bar.setAttribute("aria-label", `votes for ${names[i]}`);
    count.textContent = votes[i];
    row.append(name, bar, count);
    return row;
  }));
}

async function noisy() {
  try {
    const response = await ask("/noisy?copies=5", { method: "POST", body: asked });
    const old = $("noisy").src;
    $("noisy").src = URL.createObjectURL(await response.blob());
    $("noisy").hidden = false;
    if (old) URL.revokeObjectURL(old);
  } catch (error) {
    say(error.message);
  }
}

// --- what the radius means

function sized() {
  const size = Number($("size").value);
  $("size-said").textContent = size.toFixed(2);
  if (!answer) return;
  $("inside").textContent = answer.abstained ? "The image itself has no answer."
    : size < answer.radius ? "Inside the radius: no such change can alter the answer, whoever makes it."
    : "Outside the radius: nothing is promised here.";
}

async function again() {
  if (!answer) return;
  $("perturb").disabled = true;
  await Promise.all(["random", "attack"].map(perturb));
  $("perturb").disabled = false;
}

async function perturb(how) {
  const said = $(`${how}-said`), size = $("size").value;
  said.textContent = "…";
  said.className = "";
  try {
    const found = await (await ask(`/perturb?how=${how}&size=${size}`, { method: "POST", body: asked })).json();
    const picture = $(how);
    picture.src = found.image;
    picture.hidden = false;
    await picture.decode();
    const whole = { x: 0, y: 0, size: [picture.naturalWidth, picture.naturalHeight] };
    const body = encode(pixels(picture, whole));
    const there = await (await ask(`/certify${settings()}`, { method: "POST", body })).json();
    const same = !there.abstained && there.label === answer.label;
    said.textContent = (there.abstained ? "abstains" : there.class_name) + `, ${(Math.ceil(found.distance * 100) / 100).toFixed(2)} away`;
    said.className = same ? "good" : there.abstained ? "" : "bad";
  } catch (error) {
    said.textContent = error.message;
  }
}

$("size").addEventListener("input", sized);
$("size").addEventListener("change", again);
$("perturb").addEventListener("click", again);
$("ask").addEventListener("submit", (event) => { event.preventDefault(); certify(); });
const started = start().catch((error) => say(error.message));
