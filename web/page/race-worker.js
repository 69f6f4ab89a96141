// The same network in floats, run by ONNX Runtime Web on one thread. Its files lie in vendor/, if anybody has put them
// there (make web does, where npm is).

import { readFile } from "./ftbnn/file.js";
import { toOnnx } from "./onnx.js";

let session;

const methods = {
  async load(bytes) {
    const ort = await import("./vendor/ort.wasm.min.mjs");
    ort.env.wasm.wasmPaths = new URL("./vendor/", import.meta.url).href;
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = "error";
    const file = readFile(bytes), model = toOnnx(file);
    session = { ort, file, run: await ort.InferenceSession.create(model, { executionProviders: ["wasm"] }) };
    return { sizeBytes: model.length };
  },

  async run(pixels, rounds) {
    const { ort, file, run } = session, { channels, height, width } = file.input;
    const input = new Float32Array(pixels.length);
    for (let k = 0; k < pixels.length; k++) {
      const c = k % channels;
      input[c * height * width + Math.floor(k / channels)] = (pixels[k] / 255 - file.mean[c]) / file.std[c];
    }
    const feed = { input: new ort.Tensor("float32", input, [1, channels, height, width]) };
    let output;
    const start = performance.now();
    for (let k = 0; k < rounds; k++) output = await run.run(feed);
    return { scores: output.output.data, ms: (performance.now() - start) / rounds };
  },
};

onmessage = async ({ data: { id, method, args } }) => {
  try {
    postMessage({ id, value: await methods[method](...args) });
  } catch (error) {
    postMessage({ id, error: { message: error.message } });
  }
};
