// One contender after the other in headless Chromium, as bench.py asks: a line "NETWORK CONTENDER" on standard input, a
// line with milliseconds an image on standard output.
//   node web/bench_browser.js FOLDER     (with NETWORK.ftbnn and NETWORK.onnx)

import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { launch, serve } from "./tests/browser.js";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const site = await serve({ package: here("package"), ort: here("node_modules/onnxruntime-web/dist"), files: process.argv[2] });
const browser = await launch(), page = await browser.newPage();
await page.goto(`${site.url}/package/package.json`);

await page.evaluate(() => {
  const ready = new Map(), SECOND = 1000;

  async function ours(network, isa) {
    const { load } = await import("/package/ftbnn.js");
    const wasm = isa === "relaxed" ? "/package/ftbnn-relaxed.wasm" : "/package/ftbnn.wasm";
    const net = await load(`/files/${network}.ftbnn`, { isa, wasm });
    const { channels, height, width } = net.inputShape;
    const pixels = Uint8Array.from({ length: channels * height * width }, (_, k) => (k * 2654435761) >>> 24);
    return () => net.run(pixels);
  }

  async function onnx(network) {
    const ort = await import("/ort/ort.wasm.min.mjs");
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = new URL("/ort/", location.href).href;
    const session = await ort.InferenceSession.create(`/files/${network}.onnx`, { executionProviders: ["wasm"] });
    const { shape } = session.inputMetadata[0], dims = shape.map((size) => (typeof size === "number" ? size : 1));
    const input = Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, k) => Math.sin(k));
    return () => session.run({ [session.inputNames[0]]: new ort.Tensor("float32", input, dims) });
  }

  // Milliseconds a call: the median of pieces of 20 ms, of which the first second is not counted.
  window.measure = async (network, contender) => {
    const key = `${network} ${contender}`;
    const isNew = !ready.has(key);
    if (isNew) ready.set(key, await (contender === "onnx" ? onnx(network) : ours(network, contender)));
    const run = ready.get(key), pieces = [];
    const until = async (ms) => {
      const start = performance.now();
      let calls = 0;
      do {
        await run();
        calls++;
      } while (performance.now() - start < ms);
      return (performance.now() - start) / calls;
    };
    await until(isNew ? SECOND : 100);
    for (let k = 0; k < 15; k++) pieces.push(await until(20));
    return pieces.sort((a, b) => a - b)[pieces.length >> 1];
  };
});

console.log(`chromium ${browser.version()}`);
for await (const line of createInterface({ input: process.stdin })) {
  console.log(await page.evaluate(([network, contender]) => measure(network, contender), line.split(" ")));
}
await browser.close();
site.close();
