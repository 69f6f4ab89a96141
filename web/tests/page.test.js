// The page, driven in Chromium as people use it. Screenshots go to web/tests/screenshots.
//   node --test web/tests/page.test.js       (what `make test-web` does, with SITE=the folder of `ftbnn demo --out`)

import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, serve } from "./browser.js";

const SITE = process.env.SITE;
const SHOTS = fileURLToPath(new URL("./screenshots/", import.meta.url));
const PATIENCE = 120_000; // a busy machine is no mistake of the page
mkdirSync(SHOTS, { recursive: true });

let site, browser;
before(async () => {
  site = await serve({ "": SITE });
  browser = await launch(["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]);
});
after(async () => {
  await browser.close();
  site.close();
});

async function open(options = {}, url = site.url) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage(), wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(error.message));
  page.on("request", (request) => request.url().startsWith(url) || request.url().startsWith("blob:") || wrong.push(request.url()));
  await page.goto(`${url}/index.html`);
  await page.waitForSelector("body[data-ready]");
  return { page, context, done: async () => { assert.deepEqual(wrong, []); await context.close(); } };
}

const shot = (page, name) => page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: true });
const best = (page) => page.textContent("#best");
const answered = (page, name) => page.waitForFunction((name) => document.getElementById("best").textContent === name, name);
const told = (page, text) => page.waitForFunction((text) => document.getElementById("message").textContent.includes(text), text);

// A line through points of the pad, 0 to 1.
async function stroke(page, points) {
  const box = await page.locator("#pad").boundingBox();
  const at = ([x, y]) => [box.x + x * box.width, box.y + y * box.height];
  await page.mouse.move(...at(points[0]));
  await page.mouse.down();
  for (const point of points.slice(1)) await page.mouse.move(...at(point), { steps: 8 });
  await page.mouse.up();
}

const SEVEN = [[0.25, 0.25], [0.72, 0.25], [0.45, 0.8]];
const ZERO = Array.from({ length: 17 }, (_, k) => [0.5 + 0.2 * Math.sin((k * Math.PI) / 8), 0.5 - 0.3 * Math.cos((k * Math.PI) / 8)]);

// A picture, made in the page: what a canvas of so many pixels is encoded to.
function truck(width, height, type) {
  const canvas = new OffscreenCanvas(width, height), context = canvas.getContext("2d");
  const sky = context.createLinearGradient(0, 0, 0, height);
  sky.addColorStop(0, "#7db4e8");
  sky.addColorStop(1, "#4a7a3a");
  context.fillStyle = sky;
  context.fillRect(0, 0, width, height);
  context.fillStyle = "#b7382c";
  context.fillRect(width * 0.25, height * 0.45, width * 0.5, height * 0.3);
  context.fillStyle = "#222";
  for (const x of [0.35, 0.65]) { context.beginPath(); context.arc(width * x, height * 0.76, width * 0.07, 0, 7); context.fill(); }
  return canvas.convertToBlob({ type, quality: 0.9 });
}

// A file dropped on the page: of bytes, or that picture.
async function drop(page, name, { bytes, width, height, type = "image/jpeg" }) {
  await page.evaluate(`window.truck = ${truck}`);
  await page.evaluate(async ({ name, bytes, width, height, type }) => {
    const blob = width ? await window.truck(width, height, type) : new Blob([Uint8Array.from(bytes ?? [])]);
    const transfer = new DataTransfer();
    transfer.items.add(new File([blob], name, { type }));
    dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, { name, bytes, width, height, type });
}

test("a digit is recognised at every stroke", async () => {
  const { page, done } = await open();
  await shot(page, "start");
  await stroke(page, SEVEN);
  await answered(page, "7");
  await page.waitForFunction(() => document.getElementById("maps-note").textContent.startsWith("What"));
  await shot(page, "digit");
  await stroke(page, [[0.35, 0.55], [0.65, 0.55]]);
  await page.click("#clear");
  await answered(page, "–");
  await stroke(page, ZERO);
  await answered(page, "0");
  await page.click("#undo");
  await answered(page, "–");
  await done();
});

test("every network of the zoo runs, and every binary layer shows its signs", async () => {
  const { page, done } = await open();
  await stroke(page, ZERO);
  await answered(page, "0");
  for (const name of await page.$$eval("#network option", (options) => options.map((option) => option.value))) {
    await page.selectOption("#network", name);
    await page.waitForSelector(`#answer[data-network="${name}"]`);
    const layers = page.locator("#layers button");
    assert.ok((await layers.count()) >= 8);
    for (const k of [0, (await layers.count()) - 1]) {
      await layers.nth(k).click();
      const path = await layers.nth(k).locator("span").first().textContent();
      await page.waitForFunction((path) => document.getElementById("maps-note").textContent.includes(`What ${path} reads`), path);
    }
  }
  await done();
});

test("photos are dropped, and the part that is seen is shown", async () => {
  const { page, done } = await open();
  await page.selectOption("#network", "imagenette");
  await page.waitForFunction(() => document.getElementById("facts").textContent.includes("128"));
  await page.click("#tab-photo");
  await shot(page, "photo-empty");
  await drop(page, "truck.jpg", { width: 900, height: 600 });
  await page.waitForSelector("#answer[data-network]");
  assert.equal(await page.isVisible("#photo"), true);
  await page.waitForFunction(() => document.getElementById("maps-note").textContent.startsWith("What"));
  await shot(page, "photo");
  const before = await best(page);
  await drop(page, "large.jpg", { width: 5200, height: 3900 }); // 20 megapixels
  await page.waitForFunction(() => document.getElementById("photo").width === 900 && document.getElementById("photo").height === 675);
  await page.waitForSelector("#answer[data-network]");
  assert.equal(await best(page), before);
  assert.equal(await page.isHidden("#message"), true);
  await done();
});

test("a photo is pasted, and text is not taken for one", async () => {
  const { page, done } = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  await page.selectOption("#network", "imagenette");
  await page.waitForFunction(() => document.getElementById("facts").textContent.includes("128"));
  await page.evaluate(() => navigator.clipboard.writeText("no picture"));
  await page.keyboard.press("Control+V");
  await page.evaluate(`window.truck = ${truck}`);
  await page.evaluate(async () => navigator.clipboard.write([new ClipboardItem({ "image/png": await window.truck(900, 600, "image/png") })]));
  await page.keyboard.press("Control+V");
  await page.waitForSelector("#answer[data-network]");
  assert.equal(await page.isVisible("#photo"), true);
  assert.equal(await page.isHidden("#message"), true);
  await page.waitForFunction(() => document.getElementById("maps-note").textContent.startsWith("What"));
  await shot(page, "pasted");
  const pasted = await page.textContent("#classes");
  await page.selectOption("#network", "cifar10");
  await page.waitForSelector('#answer[data-network="cifar10"]');
  await page.selectOption("#network", "imagenette");
  await page.waitForSelector('#answer[data-network="imagenette"]');
  await drop(page, "truck.png", { width: 900, height: 600, type: "image/png" });
  await page.waitForFunction((text) => document.getElementById("classes").textContent === text, pasted);
  await done();
});

test("what cannot be used is said, and the page lives on", async () => {
  const { page, done } = await open();
  const zoo = readFileSync(join(SITE, "zoo/mnist.ftbnn"));
  const damaged = Array.from(zoo);
  damaged[zoo.length - 100] ^= 1;
  const cases = [
    ["notes.txt", { bytes: [104, 105], type: "text/plain" }, "notes.txt: it cannot be read as a picture"],
    ["empty.jpg", { bytes: [] }, "empty.jpg: the file is empty"],
    ["broken.jpg", { bytes: [0xff, 0xd8, 0xff, 0xe0, 0, 16, 74, 70] }, "broken.jpg: it cannot be read as a picture"],
    ["damaged.ftbnn", { bytes: damaged }, "the payload's checksum is wrong"],
    ["short.ftbnn", { bytes: Array.from(zoo.subarray(0, 900)) }, "short.ftbnn is not a network that can be run"],
    ["empty.ftbnn", { bytes: [] }, "the file is empty"],
    ["photo.ftbnn", { width: 40, height: 40 }, "this is not a .ftbnn file"],
  ];
  for (const [name, file, message] of cases) {
    await drop(page, name, file);
    await told(page, message);
  }
  await shot(page, "message");
  await page.evaluate(() => {
    const transfer = new DataTransfer();
    transfer.setData("text/plain", "words");
    dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  });
  await told(page, "What was dropped is not a file");
  await page.click("#tab-draw");
  await stroke(page, SEVEN);
  await answered(page, "7");
  assert.equal(await page.isHidden("#message"), true);
  await done();
});

test("a network of one's own", async () => {
  const { page, done } = await open();
  await stroke(page, ZERO);
  await answered(page, "0");
  await drop(page, "mine.ftbnn", { bytes: Array.from(readFileSync(join(SITE, "zoo/digits.ftbnn"))) });
  await page.waitForFunction(() => document.getElementById("facts").textContent.startsWith("mine.ftbnn."));
  await answered(page, "0");
  assert.equal(await page.$eval("#network", (select) => select.selectedOptions[0].textContent), "mine.ftbnn");
  await done();
});

test("one's own network, and a file that was opened, are chosen again", async () => {
  const { page, done } = await open();
  const choose = async (choice, name) => {
    await page.selectOption("#network", choice);
    await page.waitForSelector(`#answer[data-network="${name}"]`);
  };
  await stroke(page, ZERO);
  await answered(page, "0");
  const file = join(SITE, "zoo/digits.ftbnn");
  await page.setInputFiles("#file", file);
  await page.waitForSelector('#answer[data-network="digits.ftbnn"]');
  await choose("mnist", "mnist");
  await choose({ label: "digits.ftbnn" }, "digits.ftbnn");
  assert.match(await page.textContent("#facts"), /^digits.ftbnn\. 8 × 8 pixels, grey, 10 classes/);
  await choose("mnist", "mnist");
  await page.setInputFiles("#file", file);
  await page.waitForSelector('#answer[data-network="digits.ftbnn"]');
  assert.equal(await page.$eval("#network", (select) => select.selectedOptions[0].textContent), "digits.ftbnn");
  await done();
});

test("of networks chosen faster than they load the last is shown", async () => {
  const { page, done } = await open();
  await stroke(page, ZERO);
  await answered(page, "0");
  await page.$eval("#network", (select) => {
    for (const name of ["imagenette", "cifar10", "imagenette", "digits"]) {
      select.value = name;
      select.dispatchEvent(new Event("change"));
    }
  });
  await page.waitForSelector('#answer[data-network="digits"]');
  await page.waitForTimeout(2000); // for a larger one to come late
  assert.equal(await page.getAttribute("#answer", "data-network"), "digits");
  assert.match(await page.textContent("#facts"), /8 × 8 pixels/);
  await done();
});

test("a network that cannot be fetched is not the chosen one", async () => {
  const { page, context } = await open({ serviceWorkers: "block" });
  await page.route("**/zoo/cifar10.ftbnn", (route) => route.fulfill({ status: 404 }));
  await page.selectOption("#network", "cifar10");
  await told(page, "cifar10: cannot fetch");
  assert.equal(await page.inputValue("#network"), "mnist");
  await stroke(page, SEVEN);
  await answered(page, "7");
  await context.close(); // done() would find the browser's own note of the 404
});

test("the answer is that of the open tab", async () => {
  const { page, done } = await open();
  await stroke(page, SEVEN);
  await answered(page, "7");
  await page.click("#tab-photo");
  await answered(page, "–");
  await page.waitForFunction(() => document.getElementById("maps-note").textContent.startsWith("Draw or drop"));
  await drop(page, "truck.jpg", { width: 900, height: 600 });
  await page.waitForSelector("#answer[data-network]");
  const seen = await page.textContent("#classes");
  await page.click("#tab-draw");
  await answered(page, "7");
  await drop(page, "broken.jpg", { bytes: [0xff, 0xd8] });
  await told(page, "broken.jpg: it cannot be read as a picture");
  assert.equal(await page.isVisible("#photo"), true);
  assert.equal(await page.textContent("#classes"), seen);
  await page.click("#tab-camera");
  await answered(page, "–");
  await page.click("#tab-draw");
  await answered(page, "7");
  await done();
});

test("all of it by keyboard", async () => {
  const { page, done } = await open();
  await page.focus("#pad");
  for (let k = 0; k < 8; k++) await page.keyboard.press("ArrowUp");
  await page.keyboard.down("Shift");
  for (let k = 0; k < 18; k++) await page.keyboard.press("ArrowDown");
  await page.keyboard.up("Shift");
  await answered(page, "1");
  await page.keyboard.press("Delete");
  await answered(page, "–");
  await page.focus("#tab-draw");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.getAttribute("#tab-photo", "aria-selected"), "true");
  const seen = new Set();
  for (let k = 0; k < 60; k++) {
    await page.keyboard.press("Tab");
    seen.add(await page.evaluate(() => document.activeElement.id || document.activeElement.tagName));
  }
  for (const id of ["network", "open", "drop", "choose", "race", "BUTTON"]) assert.ok(seen.has(id), `${id} has no focus`);
  await done();
});

test("the camera", async () => {
  const { page, done } = await open({ permissions: ["camera"] });
  await page.selectOption("#network", "cifar10");
  await page.click("#tab-camera");
  await page.click("#camera");
  await page.waitForSelector("#answer[data-network]");
  await shot(page, "camera");
  await page.click("#tab-draw");
  assert.equal(await page.evaluate(() => document.getElementById("video").srcObject), null);
  await done();
});

test("a camera that starts too late is let go, and one is asked for once", async () => {
  const { page, done } = await open({ permissions: ["camera"] });
  await page.evaluate(() => {
    const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    window.streams = [];
    navigator.mediaDevices.getUserMedia = async (wanted) => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      const stream = await ask(wanted);
      window.streams.push(stream);
      return stream;
    };
  });
  await page.click("#tab-camera");
  await page.click("#camera");
  await page.click("#camera");
  await page.click("#tab-draw");
  await page.waitForTimeout(1500);
  const states = await page.evaluate(() => window.streams.map((stream) => stream.getTracks()[0].readyState));
  assert.deepEqual(states, ["ended"]);
  await page.click("#tab-camera");
  await page.click("#camera");
  await page.waitForSelector("#answer[data-network]");
  assert.equal(await page.textContent("#camera"), "Stop the camera");
  await done();
});

test("the race against floats, and without them", async () => {
  const { page, done } = await open();
  const hasFloats = await page.evaluate(async () => Boolean((await (await fetch("contents.json")).json()).floats));
  assert.equal(await page.isDisabled("#race"), !hasFloats);
  if (hasFloats) {
    await stroke(page, SEVEN);
    await answered(page, "7");
    await page.click("#race");
    await page.waitForFunction(() => /same class|differ/.test(document.getElementById("race-result").textContent));
    assert.match(await page.textContent("#race-result"), /Both say the same class/);
    await page.waitForTimeout(800); // for the bars to have grown
    await shot(page, "race");
    await page.click("#race");
    await page.selectOption("#network", "digits");
    await page.waitForSelector('#answer[data-network="digits"]');
    await page.waitForFunction(() => !document.getElementById("race").disabled);
    assert.equal(await page.textContent("#race-result"), "");
    assert.equal(await page.isHidden("#message"), true);
  }
  await done();
});

test("a page without ONNX Runtime, as in wheels, says so", async () => {
  const bare = mkdtempSync(join(tmpdir(), "site-"));
  cpSync(SITE, bare, { recursive: true });
  rmSync(join(bare, "vendor"), { recursive: true, force: true });
  const contents = JSON.parse(readFileSync(join(SITE, "contents.json"), "utf8"));
  writeFileSync(join(bare, "contents.json"), JSON.stringify({ ...contents, floats: null }));
  const other = await serve({ "": bare });
  const { page, done } = await open({}, other.url);
  assert.match(await page.textContent("#race-note"), /not beside this page/);
  assert.equal(await page.isDisabled("#race"), true);
  await stroke(page, SEVEN);
  await answered(page, "7");
  await done();
  other.close();
  rmSync(bare, { recursive: true });
});

test("without a network, once it was there", async () => {
  const { page, context, done } = await open();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.waitForFunction(async () => (await (await caches.open("ftbnn")).keys()).length > 20);
  await context.setOffline(true);
  await page.reload();
  await page.waitForSelector("body[data-ready]");
  await page.selectOption("#network", "imagenette");
  await page.waitForFunction(() => document.getElementById("facts").textContent.includes("128"));
  await context.close();
});

test("on a phone", async () => {
  const { page, done } = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await stroke(page, ZERO);
  await answered(page, "0");
  const verdict = await page.locator("#best").boundingBox();
  assert.ok(verdict.y + verdict.height <= 844, "the answer is in sight of the pad");
  await page.screenshot({ path: join(SHOTS, "phone-first.png") });
  await shot(page, "phone");
  await done();
});

test("in the dark", async () => {
  const { page, done } = await open({ colorScheme: "dark" });
  await stroke(page, SEVEN);
  await answered(page, "7");
  await shot(page, "dark");
  await done();
});
