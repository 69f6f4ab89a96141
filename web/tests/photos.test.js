// Photos in Chromium, from files to classes: the pixels and the classes that Python has (EXPECTED: the folder of
// expect.py, PACKAGE: the package).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { launch, serve } from "./browser.js";

const EXPECTED = process.env.EXPECTED;
const expected = JSON.parse(readFileSync(join(EXPECTED, "expected.json")));
let site, browser, page;

before(async () => {
  site = await serve({ package: fileURLToPath(new URL("../package", import.meta.url)), expected: EXPECTED });
  browser = await launch();
  page = await browser.newPage();
  await page.goto(`${site.url}/expected/expected.json`);
});
after(async () => {
  await browser.close();
  site.close();
});

// Of each photo the pixels that differ from Python's, the largest difference, and the class.
const look = (rows, isInWorker) => page.evaluate(async ([rows, isInWorker]) => {
  const { load, loadInWorker } = await import("/package/ftbnn.js");
  const { decode } = await import("/package/photo.js");
  const networks = new Map(), found = [];
  for (const row of rows) {
    if (!networks.has(row.network)) {
      networks.set(row.network, await (isInWorker ? loadInWorker : load)(`/expected/networks/zoo-${row.network}.ftbnn`));
    }
    const net = networks.get(row.network), blob = await (await fetch(`/expected/photos/${row.photo}`)).blob();
    let seen, top;
    if (isInWorker) {
      ({ seen, top } = await net.look(blob, 1));
    } else {
      const picture = await decode(blob);
      seen = net.prepare(picture);
      top = net.classify(picture, 1);
      picture.close();
    }
    const pixels = new Uint8Array(await (await fetch(`/expected/pixels/${row.pixels}`)).arrayBuffer());
    const apart = seen.map((value, k) => Math.abs(value - pixels[k]));
    found.push({ differ: apart.filter((value) => value > 0).length, most: Math.max(...apart), class: top[0].name });
  }
  return found;
}, [rows, isInWorker]);

test("the module with relaxed SIMD gives portable's bits", async () => {
  const wrong = await page.evaluate(async (networks) => {
    const { load } = await import("/package/ftbnn.js");
    const get = async (path) => new Uint8Array(await (await fetch(`/expected/networks/${path}`)).arrayBuffer());
    const wrong = [];
    for (const { name } of networks) {
      const net = await load(`/expected/networks/${name}.ftbnn`), { channels, height, width } = net.inputShape;
      if (net.isa !== "relaxed") wrong.push(`${name} runs as ${net.isa}`);
      const found = net.run((await get(`${name}.u8`)).subarray(0, channels * height * width));
      const scores = new Float32Array((await get(`${name}.u8.scores`)).buffer);
      if (!found.every((score, k) => Object.is(score, scores[k]))) wrong.push(name);
    }
    return wrong;
  }, expected.networks);
  assert.deepEqual(wrong, []);
});

for (const isInWorker of [false, true]) {
  test(`photos have Python's pixels and classes${isInWorker ? ", in a Worker" : ""}`, async () => {
    const found = await look(expected.photos, isInWorker);
    const wrong = found.flatMap((row, k) => {
      const { photo, network, class: name } = expected.photos[k];
      return row.differ > 0 || row.class !== name ? [`${photo} (${network}): ${row.differ} pixels by up to ${row.most}, ${row.class} for ${name}`] : [];
    });
    assert.deepEqual(wrong, []);
    console.log(`${found.length} photos, all as in Python`);
  });
}
