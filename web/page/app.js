// The page: pictures come in, the network's answer goes out, and what is inside is shown.

import { bytesOf, loadInWorker, version } from "./ftbnn/ftbnn.js";
import { beginning, readFile } from "./ftbnn/file.js";
import { cropBox, MOST_PIXELS } from "./ftbnn/photo.js";
import { Pad } from "./pad.js";
import { showFilters, showPhoto, showSeen, showSigns } from "./pictures.js";
import { race } from "./race.js";

const $ = (id) => document.getElementById(id);
const MOST_FILE = 2 ** 28; // a .ftbnn file that is larger than this is a mistake of the hand
const MOST_MAPS = 64, MOST_CLASSES = 10;

const state = { zoo: [], own: null, choice: null, network: null, bytes: null, file: null, layer: null, shown: null, view: null };

// Words and numbers

const size = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(bytes < 1e5 ? 1 : 0)} kB` : `${(bytes / 1e6).toFixed(bytes < 1e8 ? 2 : 0)} MB`);
const milliseconds = (ms) => `${ms < 1 ? ms.toFixed(2) : ms < 10 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function say(message) {
  $("message").textContent = message ?? "";
  $("message").hidden = !message;
}

// One thing after the other: of pictures that come faster than they are looked at, the newest counts.

let waiting, isBusy = false;

function look(picture) {
  waiting = picture;
  if (!isBusy) work();
}

async function work() {
  isBusy = true;
  while (waiting) {
    const picture = waiting;
    waiting = undefined;
    try {
      await show(picture);
    } catch (error) {
      say(`${picture.name ?? "The picture"}: ${error.message}`);
    }
  }
  isBusy = false;
}

async function show({ image }) {
  const { network } = state;
  if (!network) return;
  const before = blanks;
  const answer = await network.look(await image(), Math.min(MOST_CLASSES, network.outputs));
  if (network !== state.network || before !== blanks) return; // it is of something that is gone
  say();
  state.shown = { answer };
  $("answer").dataset.network = state.name;
  $("best").textContent = answer.top[0].name;
  $("share").textContent = percent(answer.top[0].share);
  $("classes").replaceChildren(...answer.top.map(({ name, share }) => bar("li", name, share, percent(share))));
  $("classes").classList.remove("none");
  number("time", milliseconds(answer.runMs), `${Math.round(1000 / answer.runMs).toLocaleString("en")} a second`);
  showSeen($("seen"), answer.seen, network.inputShape);
  await showMaps();
}

function bar(kind, name, share, text) {
  const row = document.createElement(kind), label = document.createElement("span"), track = document.createElement("div");
  const fill = document.createElement("i"), value = document.createElement("b");
  label.textContent = label.title = name;
  value.textContent = text;
  track.className = "track";
  fill.style.width = `${100 * share}%`;
  track.append(fill);
  row.append(label, track, value);
  return row;
}

function number(id, text, small) {
  const below = document.createElement("small");
  below.textContent = small;
  $(id).replaceChildren(text, below);
}

let blanks = 0;

function blank() {
  blanks++;
  waiting = undefined;
  state.shown = null;
  $("best").textContent = "–";
  delete $("answer").dataset.network;
  $("share").textContent = "";
  const names = state.network ? Array.from({ length: Math.min(MOST_CLASSES, state.network.outputs) }, (_, k) => state.network.classNames[k] ?? String(k)) : [];
  $("classes").replaceChildren(...names.map((name) => bar("li", name, 0, "")));
  $("classes").classList.add("none");
  $("time").textContent = "–";
  $("seen").width = 1;
  if (state.network) showMaps().catch(() => {}); // show() waits for its own, and says what is wrong
}

// Networks

const OWN = ""; // the place of one's own network in the list
let choices = 0; // some come faster than networks are loaded: the last counts

// `choice` is the place in the list, `fetched` a promise of bytes.
async function choose(choice, name, facts, fetched, wrong) {
  const mine = ++choices;
  try {
    const bytes = await fetched, network = await loadInWorker(bytes); // throws what the engine has against it
    if (mine !== choices) return network.close();
    const file = readFile(bytes);
    if (choice === OWN) listOwn({ bytes, name, facts });
    state.choice = $("network").value = choice;
    useNetwork(network, { bytes, file, name, facts });
    again();
  } catch (error) {
    if (mine !== choices) return;
    say(`${wrong}: ${error.message}`);
    $("network").value = state.choice;
  }
}

function useNetwork(network, { bytes, file, name, facts }) {
  const { inputShape: { channels, height, width }, outputs } = network;
  // Browsers compile well what is hot. A network that is closed before that has nothing to warm up for.
  network.time(new Uint8Array(channels * height * width), 100).catch(() => {});
  state.network?.close();
  Object.assign(state, { network, bytes, file, name, shown: null });
  state.layer = file.operators.find((op) => op.kind === "bconv") ?? null;
  say();
  blank();
  const colours = { 1: "grey", 3: "colour" }[channels] ?? `${channels} channels`;
  $("facts").textContent = `${facts} ${width} × ${height} pixels, ${colours}, ${outputs} ${outputs === 1 ? "class" : "classes"}.`;
  const floats = file.operators.reduce((sum, op) => sum + (op.weightBits === 1 ? op.bits.length * 32 : op.weightBytes ?? 0), 0);
  number("size", size(bytes.length), `${Math.max(1, Math.round(floats / bytes.length))} × smaller than floats`);
  const all = file.operators.reduce((sum, op) => sum + op.macs, 0);
  const binary = file.operators.reduce((sum, op) => sum + (op.kind === "bconv" ? op.macs : 0), 0);
  number("binary", percent(all ? binary / all : 0), "of all products");
  $("engine").textContent = `ftbnn ${state.version}, WebAssembly (${network.isa}), one thread.`;
  listLayers();
  showFirstFilters();
  clearRace();
  $("pad-hint").textContent = isDigits() ? "Draw a digit" : "Draw something, or choose Photo";
}

const isDigits = () => state.file?.classNames.join() === "0,1,2,3,4,5,6,7,8,9";

function chooseListed(choice) {
  if (choice === OWN) return choose(OWN, state.own.name, state.own.facts, state.own.bytes, state.own.name);
  const { name, about } = state.zoo.find((one) => one.name === choice);
  return choose(name, name, about, bytesOf(new URL(`./zoo/${name}.ftbnn`, import.meta.url)), name);
}

function listOwn(own) {
  state.own = own;
  const option = [...$("network").options].find(({ value }) => value === OWN) ?? new Option("", OWN);
  option.textContent = own.name;
  $("network").append(option);
}

async function bytesOfFile(file) {
  if (file.size === 0) throw new Error("the file is empty");
  if (file.size > MOST_FILE) throw new Error(`${size(file.size)} are more than a network has`);
  return bytesOf(file);
}

const openFile = (file) => choose(OWN, file.name, `${file.name}.`, bytesOfFile(file), `${file.name} is not a network that can be run`);

// The picture of the open tab, once more.
function again() {
  if (!$("panel-draw").hidden) drawn();
  else if (!$("panel-photo").hidden && state.photo) showFile(state.photo);
  else if (!stream) blank();
}

// Layers

function listLayers() {
  const { operators } = state.file, most = Math.max(...operators.map((op) => op.macs), 1);
  const bits = operators.filter((op) => op.kind === "bconv").length;
  $("inside-note").textContent = `${bits} of ${operators.length} operators are binary convolutions.`;
  $("layers").replaceChildren(...operators.map((op) => {
    const isBinary = op.kind === "bconv", row = document.createElement(isBinary ? "button" : "div");
    const path = document.createElement("span"), kind = document.createElement("span"), track = document.createElement("span");
    path.textContent = path.title = op.path || op.kind;
    kind.className = isBinary ? "bits one" : "bits";
    kind.textContent = op.weightBits ? `${op.weightBits} bit${op.weightBits > 1 ? "s" : ""}` : op.kind.replace("average-to", "average").slice(0, 8);
    track.className = "track";
    track.innerHTML = `<i style="width:${(100 * op.macs) / most}%"></i>`;
    track.title = `${(op.macs / 1e6).toFixed(2)} million products`;
    row.append(path, kind, track);
    if (isBinary) {
      row.type = "button";
      row.setAttribute("aria-pressed", String(op === state.layer));
      row.setAttribute("aria-label", `${op.path}, binary, ${(op.macs / 1e6).toFixed(1)} million products. Show its signs.`);
      row.addEventListener("click", () => chooseLayer(op, row));
    }
    const item = document.createElement("li");
    item.append(row);
    return item;
  }));
}

function chooseLayer(op, row) {
  state.layer = op;
  for (const button of $("layers").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button === row));
  showMaps().catch((error) => say(error.message));
}

let maps = Promise.resolve(); // one after the other: each may end the network that the one before has used

function showMaps() {
  maps = maps.catch(() => {}).then(showMapsNow);
  return maps;
}

// The signs that the chosen layer multiplies: of the value that it reads, so of a network that ends there.
async function showMapsNow() {
  const { layer, file, bytes, shown } = state;
  if (state.view?.file !== file) {
    state.view?.network.close();
    state.view = null;
  }
  $("maps").hidden = !layer || !shown;
  if (!layer || !shown) {
    $("maps-note").textContent = layer ? "Draw or drop something to see it." : "This network has no binary layer.";
    return;
  }
  const value = layer.inputs[0], shape = file.values[value];
  let numbers;
  if (value === 0) {
    const { channels } = shape, plane = shape.height * shape.width;
    numbers = Float32Array.from({ length: channels * plane }, (_, k) => {
      const c = Math.floor(k / plane);
      return shown.answer.seen[(k % plane) * channels + c] / 255 - file.mean[c];
    });
  } else {
    if (state.view?.value !== value) {
      state.view?.network.close();
      state.view = null;
      state.view = { file, value, network: await loadInWorker(beginning(bytes, file, value)) };
    }
    numbers = await state.view.network.run(shown.answer.seen);
  }
  if (file !== state.file || layer !== state.layer) return;
  const count = showSigns($("maps"), numbers, shape, layer.threshold, MOST_MAPS);
  $("maps-note").textContent = `What ${layer.path} reads: ${count} of ${shape.channels} channels, ${shape.width} × ${shape.height}. Light is +1, dark is ${layer.zeroOne ? "0" : "−1"}.`;
}

function showFirstFilters() {
  const first = state.file.operators.find((op) => op.weightBits > 1 && op.kh * op.kw > 1);
  $("filters").hidden = !first;
  if (!first) {
    $("filters-note").textContent = "This network has no real convolution wider than a pixel.";
    return;
  }
  const { count, isColour } = showFilters($("filters"), first, 64);
  $("filters-note").textContent = `${first.path}: ${count} of ${first.outputShape.channels}, ${first.kw} × ${first.kh}${isColour ? ", in colour" : ""}. These have ${first.weightBits} bits a number.`;
}

// Drawing

const pad = new Pad($("pad"), drawn);

function drawn() {
  $("pad-hint").hidden = !pad.isEmpty;
  if (pad.isEmpty) return blank();
  const isSmall = state.file?.input.height < 16;
  const [part, pen] = isSmall ? [0.98, 0.15] : [20 / 28, 2.4 / 28];
  look({ name: "The drawing", image: async () => pad.image(part, pen) });
}

// Photos

function isNetworkFile(file) {
  return file.name.toLowerCase().endsWith(".ftbnn");
}

function take(file) {
  if (isNetworkFile(file)) return openFile(file);
  if ($("panel-photo").hidden) openTab("photo");
  showFile(file);
}

function showFile(file) {
  look({
    name: file.name || "The picture",
    image: async () => {
      if (file.size === 0) throw new Error("the file is empty");
      let bitmap;
      try {
        bitmap = await createImageBitmap(file, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
      } catch {
        throw new Error("it cannot be read as a picture");
      }
      if (bitmap.width * bitmap.height > MOST_PIXELS) {
        throw new Error(`${bitmap.width} × ${bitmap.height} pixels are more than ${MOST_PIXELS.toLocaleString("en")}`);
      }
      state.photo = file;
      $("drop").hidden = true;
      $("photo").hidden = false;
      showPhoto($("photo"), bitmap, cropBox(bitmap, state.network.inputShape, state.network.resize));
      return bitmap;
    },
  });
}

// The camera

let stream, isStarting = false;

async function startCamera() {
  if (isStarting) return;
  isStarting = true;
  try {
    if (!navigator.mediaDevices) throw new Error("the page must come by https, or from this computer");
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 640 } } });
    $("video").srcObject = stream;
    if ($("panel-camera").hidden) return stopCamera(); // asking took long
    await $("video").play();
  } catch (error) {
    if (!$("panel-camera").hidden) say(`The camera does not start: ${error.message}`);
    return stopCamera();
  } finally {
    isStarting = false;
  }
  $("camera-hint").hidden = true;
  $("camera").textContent = "Stop the camera";
  const own = stream;
  const frame = () => {
    if (stream !== own) return;
    if (!isBusy && $("video").videoWidth > 0) look({ name: "The camera", image: () => createImageBitmap($("video")) });
    setTimeout(() => requestAnimationFrame(frame), 60);
  };
  frame();
}

function stopCamera() {
  for (const track of stream?.getTracks() ?? []) track.stop();
  stream = undefined;
  $("video").srcObject = null;
  $("camera-hint").hidden = false;
  $("camera").textContent = "Start the camera";
}

// Tabs

const TABS = ["draw", "photo", "camera"];

function openTab(name) {
  for (const one of TABS) {
    const isOpen = one === name;
    $(`panel-${one}`).hidden = !isOpen;
    $(`tab-${one}`).setAttribute("aria-selected", String(isOpen));
    $(`tab-${one}`).tabIndex = isOpen ? 0 : -1;
  }
  if (name !== "camera" && stream) stopCamera();
  again();
}

// The race

function clearRace() {
  for (const id of ["race-ours", "race-float"]) $(id).textContent = "–";
  for (const id of ["lane-ours", "lane-float"]) $(id).style.width = "0";
  $("race-result").textContent = "";
}

async function runRace() {
  if (!state.shown) return say("Draw or drop something first: the race needs a picture.");
  const { network, bytes, shown } = state, isOver = () => network !== state.network; // another one was chosen
  $("race").disabled = true;
  clearRace();
  try {
    const found = await race(network, bytes, shown.answer.seen, (text) => isOver() || ($("race-result").textContent = `${text} …`));
    if (isOver()) return;
    const slower = Math.max(found.ours, found.floats);
    $("lane-ours").style.width = `${(100 * found.ours) / slower}%`;
    $("lane-float").style.width = `${(100 * found.floats) / slower}%`;
    $("race-ours").textContent = milliseconds(found.ours);
    $("race-float").textContent = milliseconds(found.floats);
    const times = found.floats / found.ours;
    const words = times >= 1 ? `${times.toFixed(1)} times as fast` : `${(1 / times).toFixed(1)} times slower`;
    $("race-result").textContent = `1 bit is ${words}, and ${size(bytes.length)} in place of ${size(found.sizeBytes)}. ` +
      (found.agree ? "Both say the same class." : "They differ about the class: a sign next to 0 has turned.");
  } catch (error) {
    if (isOver()) return;
    $("race-result").textContent = "";
    say(`The race cannot be run: ${error.message}`);
  } finally {
    $("race").disabled = false;
  }
}

// Events

$("network").addEventListener("change", () => chooseListed($("network").value));
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => {
  if ($("file").files[0]) openFile($("file").files[0]);
  $("file").value = "";
});
for (const id of ["drop", "choose"]) $(id).addEventListener("click", () => $("photo-file").click());
$("photo-file").addEventListener("change", () => {
  if ($("photo-file").files[0]) take($("photo-file").files[0]);
  $("photo-file").value = "";
});
$("clear").addEventListener("click", () => pad.clear());
$("undo").addEventListener("click", () => pad.undo());
$("camera").addEventListener("click", () => (stream ? stopCamera() : startCamera()));
$("race").addEventListener("click", runRace);
for (const name of TABS) {
  $(`tab-${name}`).addEventListener("click", () => openTab(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: TABS.length - 1 }[event.key];
    if (!step) return;
    const next = TABS[(TABS.indexOf(name) + step) % TABS.length];
    openTab(next);
    $(`tab-${next}`).focus();
  });
}
addEventListener("paste", (event) => {
  const file = event.clipboardData?.files[0];
  if (file) take(file);
});
for (const name of ["dragover", "dragleave", "drop"]) {
  addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("over", name === "dragover");
    const file = name === "drop" && event.dataTransfer?.files[0];
    if (file) take(file);
    else if (name === "drop") say("What was dropped is not a file.");
  });
}

// The start

async function start() {
  const { networks, floats } = await fetch(new URL("./contents.json", import.meta.url)).then((r) => r.json());
  state.zoo = networks;
  $("network").append(...networks.map(({ name, title }) => new Option(title, name)));
  if (!floats) {
    $("race").disabled = true;
    $("race-note").textContent = "ONNX Runtime Web (14 MB) is not beside this page, so there is nobody to race against. In a checkout of the project, `make web` fetches it where npm is installed.";
  } else {
    $("race-note").textContent += ` (version ${floats})`;
  }
  state.version = await version();
  await chooseListed(networks[0].name);
  if ("serviceWorker" in navigator && location.protocol.startsWith("http")) navigator.serviceWorker.register("./offline.js").catch(() => {});
  document.body.dataset.ready = "yes";
}

start().catch((error) => say(`The page did not start: ${error.message}`));
