// The package in Node, held to what Python gives (EXPECTED: the folder of expect.py).

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { FtbnnError, load, version } from "../package/ftbnn.js";
import { beginning, readFile } from "../package/file.js";
import { imagePicture, prepare } from "../package/photo.js";

const EXPECTED = process.env.EXPECTED;
const expected = JSON.parse(readFileSync(join(EXPECTED, "expected.json")));
const read = (...path) => new Uint8Array(readFileSync(join(EXPECTED, ...path)));
const floats = (bytes) => new Float32Array(bytes.slice().buffer);
const wasm = (name) => new Uint8Array(readFileSync(new URL(`../package/${name}`, import.meta.url)));
const hasRelaxed = WebAssembly.validate(wasm("ftbnn-relaxed.wasm"));

test("modules are small and ask for nothing but two functions", () => {
  for (const name of ["ftbnn.wasm", "ftbnn-relaxed.wasm"]) {
    assert.ok(gzipSync(wasm(name), { level: 9 }).length <= 150_000);
    if (name === "ftbnn.wasm" || hasRelaxed) {
      const imports = WebAssembly.Module.imports(new WebAssembly.Module(wasm(name)));
      assert.deepEqual(imports.map(({ module, name }) => `${module}.${name}`).sort(), ["host.now", "host.thrown"]);
    }
  }
});

test("every network gives portable's bits", async () => {
  const ways = [["ftbnn.wasm", "portable"], ["ftbnn.wasm", "simd128"]];
  if (hasRelaxed) ways.push(["ftbnn-relaxed.wasm", "relaxed"]);
  for (const { name, classes } of expected.networks) {
    for (const [module, isa] of ways) {
      const net = await load(pathToFileURL(join(EXPECTED, "networks", `${name}.ftbnn`)), { isa, wasm: wasm(module) });
      assert.equal(net.isa, isa);
      assert.deepEqual(net.classNames, classes);
      const { channels, height, width } = net.inputShape, size = channels * height * width;
      const pixels = read("networks", `${name}.u8`), reals = floats(read("networks", `${name}.f32`));
      for (const [images, kind] of [[pixels, "u8"], [reals, "f32"]]) {
        const scores = floats(read("networks", `${name}.${kind}.scores`));
        for (let k = 0; k < 2; k++) {
          const found = net.run(images.subarray(k * size, (k + 1) * size));
          assert.deepEqual(found, scores.subarray(k * net.outputs, (k + 1) * net.outputs), `${name} ${isa} ${kind}`);
        }
      }
      net.close();
      assert.throws(() => net.run(pixels.subarray(0, size)), /closed/);
    }
  }
});

test("photos are resampled as Pillow does", () => {
  for (const { raw, width, height, channels, side, resize, pixels } of expected.resamplings) {
    const picture = imagePicture({ data: read("raw", `${raw}.rgba`), width, height });
    assert.deepEqual(prepare(picture, { channels, height: side, width: side, resize }), read("pixels", pixels));
  }
});

test("an image is classified", async () => {
  const net = await load(pathToFileURL(join(EXPECTED, "networks", "zoo-cifar10.ftbnn")));
  const image = { data: new Uint8ClampedArray(4 * 50 * 40).fill(120), width: 50, height: 40 };
  const top = net.classify(image, 3);
  assert.equal(top.length, 3);
  assert.ok(top[0].share >= top[1].share && net.classNames[top[0].index] === top[0].name);
  assert.equal(net.classify(image, 99).length, 10);
  const rows = net.profile(image, 2);
  assert.equal(rows.length, net.operatorCount + 1);
  assert.deepEqual([rows[0].kind, rows[1].kind, rows[2].kind], ["input", "conv", "bconv"]);
  assert.match(await version(), /^\d+\.\d+\.\d+$/);
});

test("what a layer sees is what a network gives that ends there", async () => {
  const bytes = read("networks", "zoo-digits.ftbnn"), file = readFile(bytes), image = new Uint8Array(64).fill(77);
  const whole = (await load(bytes)).run(image);
  for (const op of file.operators) {
    const part = await load(beginning(bytes, file, op.output));
    const { channels, height, width } = op.outputShape;
    const scores = part.run(image);
    assert.equal(scores.length, channels * height * width);
    if (op === file.operators.at(-1)) assert.deepEqual(scores, whole);
  }
});

test("what cannot be used is refused, in one line", async () => {
  const bytes = read("networks", "zoo-digits-small.ftbnn");
  const refuses = (source, pattern, options) => assert.rejects(load(source, options), (error) => {
    assert.ok(error instanceof FtbnnError, String(error));
    assert.match(error.message, pattern);
    return true;
  });
  await refuses(new Uint8Array(0), /shorter than a header/);
  await refuses(new TextEncoder().encode("x".repeat(100)), /not a \.ftbnn file/);
  await refuses(bytes.subarray(0, bytes.length - 1), /its header says/);
  await refuses(bytes, /max_bytes/, { maxBytes: 1000 });
  await refuses(bytes, /not an ISA|has no/, { isa: "avx2" });
  await refuses(42, /a network is/);
  for (let at = 0; at < bytes.length; at += 997) {
    const damaged = bytes.slice();
    damaged[at] ^= 255;
    await refuses(damaged, /./);
  }
  const net = await load(bytes);
  assert.throws(() => net.run(new Uint8Array(3)), /of 64 numbers/);
  assert.throws(() => net.run(new Float32Array(64).fill(NaN)), /not finite/);
  assert.throws(() => net.profile(new Uint8Array(1000)), /of 64 numbers/);
  assert.throws(() => net.classify({ data: new Uint8Array(3), width: 1, height: 1 }), /as an ImageData has/);
  assert.equal(net.run(new Uint8Array(64)).length, 10); // and goes on
});
