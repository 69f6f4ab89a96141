// A .ftbnn file as a function of images: const net = await load(url); const top = net.classify(imageData)
//
// Each network has an instance of the module to itself. What the engine throws unwinds nothing on its way here, so the
// instance it came from is not used again (native/wasm/host.cc).

import { imagePicture, prepare } from "./photo.js";

const CODES = ["ok", "argument", "file", "format", "memory", "other"];
const OPTIONS_BYTES = 40, INFO_BYTES = 48, GUESS_BYTES = 8, TIME_BYTES = 24; // of ftbnn.h, pointers of 32 bits

/** What the engine, or this package, refuses; `code` says of which kind it is. */
export class FtbnnError extends Error {
  constructor(message, code = "argument") {
    super(message);
    this.name = "FtbnnError";
    this.code = code;
  }
}

let compiled;

/** The bytes of a URL, a Response, a Blob or memory. */
export async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (typeof source === "string" || source instanceof URL) {
    const base = typeof location === "undefined" ? undefined : location.href;
    const url = new URL(source, base);
    if (url.protocol === "file:" && typeof process !== "undefined" && process.versions?.node) {
      const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ "node:fs/promises");
      return new Uint8Array(await readFile(url));
    }
    source = await fetch(url);
  }
  if (typeof Response !== "undefined" && source instanceof Response) {
    if (!source.ok) throw new FtbnnError(`cannot fetch ${source.url}: ${source.status} ${source.statusText}`, "file");
    return new Uint8Array(await source.arrayBuffer());
  }
  if (typeof source?.arrayBuffer === "function") return new Uint8Array(await source.arrayBuffer());
  throw new FtbnnError("a network is a URL, a Response, a Blob or the bytes of a .ftbnn file");
}

// A module of one function, which is valid where there is i8x16.relaxed_swizzle.
const RELAXED = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 0, 253, 15, 65, 0, 253, 15, 253,
  128, 2, 11];

/** The better of the two modules that this browser can run: both give the same bits. */
function moduleUrl() {
  return WebAssembly.validate(new Uint8Array(RELAXED))
    ? new URL("./ftbnn-relaxed.wasm", import.meta.url)
    : new URL("./ftbnn.wasm", import.meta.url);
}

async function instantiate(wasm) {
  if (wasm !== undefined) {
    return newInstance(wasm instanceof WebAssembly.Module ? wasm : await WebAssembly.compile(await bytesOf(wasm)));
  }
  compiled ??= bytesOf(moduleUrl()).then((bytes) => WebAssembly.compile(bytes));
  compiled.catch(() => (compiled = undefined)); // the next call tries again
  return newInstance(await compiled);
}

async function newInstance(module) {
  let exports;
  const host = {
    now: () => performance.now(),
    thrown: (code, text) => {
      throw new FtbnnError(textAt(exports, text), CODES[code]);
    },
  };
  exports = (await WebAssembly.instantiate(module, { host })).exports;
  exports._initialize();
  return exports;
}

function textAt(exports, at) {
  const bytes = new Uint8Array(exports.memory.buffer, at);
  return new TextDecoder().decode(bytes.subarray(0, bytes.indexOf(0)));
}

/**
 * Loads a network. `options.isa` is "relaxed", "simd128" or "portable", by default the first of these that there is;
 * `options.wasm` is where the module comes from, if not from beside this file; `options.maxBytes` and `options.maxMacs` are what the file may ask for.
 */
export async function load(source, options = {}) {
  const bytes = await bytesOf(source);
  return new Network(await instantiate(options.wasm), bytes, options);
}

export class Network {
  #exports;
  #model;
  #pixels;
  #scores;
  #guesses;
  #over = "";

  /** Use load(). */
  constructor(exports, bytes, { isa = "", maxBytes = 0, maxMacs = 0 }) {
    this.#exports = exports;
    const [file, options, name, info] = [bytes.length || 1, OPTIONS_BYTES, 64, INFO_BYTES].map((n) => this.#take(n));
    new Uint8Array(exports.memory.buffer).set(bytes, file);
    const text = new TextEncoder().encode(isa);
    if (text.length > 63) throw new FtbnnError("isa is the name of one");
    new Uint8Array(exports.memory.buffer, name, 64).fill(0).set(text);
    const view = new DataView(exports.memory.buffer);
    new Uint8Array(exports.memory.buffer, options, OPTIONS_BYTES).fill(0);
    view.setUint32(options, OPTIONS_BYTES, true);
    view.setInt32(options + 4, 1, true);
    view.setUint32(options + 8, name, true);
    view.setBigUint64(options + 16, BigInt(maxBytes), true);
    view.setBigUint64(options + 24, BigInt(maxMacs), true);
    this.#model = this.#call("ftbnn_open_bytes", file, bytes.length, options);
    exports.free(file);
    this.#call("ftbnn_info_sized", this.#model, info, INFO_BYTES);
    const words = new Int32Array(exports.memory.buffer, info, INFO_BYTES / 4);
    const [, channels, height, width, outputs, classes, , , resize, mean, std, operators] = words;
    const floats = (at) => Array.from(new Float32Array(exports.memory.buffer, at, channels));
    this.name = textAt(exports, words[0]);
    this.isa = textAt(exports, words[7]);
    this.inputShape = { channels, height, width };
    this.outputs = outputs;
    this.resize = resize;
    this.mean = floats(mean);
    this.std = floats(std);
    this.operatorCount = operators;
    this.sizeBytes = bytes.length;
    this.classNames = Array.from({ length: classes }, (_, k) =>
      textAt(exports, exports.ftbnn_class_name(this.#model, k)));
    this.#pixels = this.#take(channels * height * width * 4);
    this.#scores = this.#take(outputs * 4);
    this.#guesses = this.#take(outputs * GUESS_BYTES);
    for (const at of [options, name, info]) exports.free(at);
  }

  /** A photo's pixels as the network wants them: `image` has `data` (RGBA), `width` and `height`, or is a picture. */
  prepare(image) {
    return prepare(typeof image.rows === "function" ? image : imagePicture(image), { ...this.inputShape, resize: this.resize });
  }

  /** The `k` likeliest classes of an image, best first. */
  classify(image, k = 5) {
    return this.top(this.run(this.prepare(image)), k);
  }

  /** Scores of 8-bit pixels [height][width][channels], or of normalised floats [channels][height][width]. */
  run(pixels) {
    this.#check();
    const isFloat = this.#enter(pixels);
    this.#call(isFloat ? "ftbnn_run" : "ftbnn_run_u8", this.#model, this.#pixels, 1, this.#scores);
    return new Float32Array(this.#exports.memory.buffer, this.#scores, this.outputs).slice();
  }

  /** The `k` best of an image's scores, with their shares of all (softmax). */
  top(scores, k = 5) {
    this.#check();
    if (scores.length !== this.outputs || !scores.every(Number.isFinite)) {
      throw new FtbnnError("the network's scores are not finite: its weights, or the image's floats, are too large", "other");
    }
    k = Math.min(k, this.outputs);
    if (!(Number.isInteger(k) && k >= 1)) throw new FtbnnError("k must be a whole number from 1 on");
    new Float32Array(this.#exports.memory.buffer, this.#scores, this.outputs).set(scores);
    this.#call("ftbnn_top", this.#scores, this.outputs, this.#guesses, k);
    const view = new DataView(this.#exports.memory.buffer, this.#guesses);
    return Array.from({ length: k }, (_, n) => {
      const index = view.getInt32(n * GUESS_BYTES, true);
      return { name: this.classNames[index] ?? String(index), index, share: view.getFloat32(n * GUESS_BYTES + 4, true) };
    });
  }

  /** Where the time goes: of each operator the fastest of `rounds`, in milliseconds; the first row is the input's. */
  profile(image, rounds = 20) {
    this.#check();
    this.#enter(image instanceof Uint8Array ? image : this.prepare(image));
    const rows = this.#take((this.operatorCount + 1) * TIME_BYTES);
    this.#call("ftbnn_profile_sized", this.#model, this.#pixels, rounds, rows, TIME_BYTES);
    const view = new DataView(this.#exports.memory.buffer, rows);
    const times = Array.from({ length: this.operatorCount + 1 }, (_, k) => ({
      path: textAt(this.#exports, view.getUint32(k * TIME_BYTES, true)),
      kind: textAt(this.#exports, view.getUint32(k * TIME_BYTES + 4, true)),
      macs: Number(view.getBigUint64(k * TIME_BYTES + 8, true)),
      ms: view.getFloat64(k * TIME_BYTES + 16, true) * 1e3,
    }));
    this.#exports.free(rows);
    return times;
  }

  /** Gives the memory back. */
  close() {
    this.#over ||= "this network is closed; load it again";
    this.#exports = undefined;
  }

  /** Puts an image where the engine reads it. True if its numbers are floats. */
  #enter(pixels) {
    const isFloat = pixels instanceof Float32Array;
    const { channels, height, width } = this.inputShape;
    if ((!isFloat && !(pixels instanceof Uint8Array || pixels instanceof Uint8ClampedArray)) ||
        pixels.length !== channels * height * width) {
      throw new FtbnnError(`an image is a Uint8Array or Float32Array of ${channels * height * width} numbers`);
    }
    if (isFloat && !pixels.every(Number.isFinite)) throw new FtbnnError("the image has values that are not finite");
    const Kind = isFloat ? Float32Array : Uint8Array;
    new Kind(this.#exports.memory.buffer, this.#pixels, pixels.length).set(pixels);
    return isFloat;
  }

  #take(bytes) {
    const at = this.#exports.malloc(bytes);
    if (at === 0) throw new FtbnnError("there is not enough memory", "memory");
    return at;
  }

  #check() {
    if (this.#over) throw new FtbnnError(this.#over);
  }

  #call(name, ...args) {
    try {
      return this.#exports[name](...args);
    } catch (error) {
      this.#over = `this network has failed before; load it again (${error.message})`;
      if (error instanceof FtbnnError) throw error;
      throw new FtbnnError(`the engine ended: ${error.message}`, "other");
    }
  }
}

/** The version of the engine. */
export async function version(options = {}) {
  const exports = await instantiate(options.wasm);
  return textAt(exports, exports.ftbnn_version());
}

/** The same network in a Worker of its own: every method gives a promise, and the page stays quick meanwhile. */
export async function loadInWorker(source, options = {}) {
  const { WorkerNetwork } = await import("./worker-network.js");
  return WorkerNetwork.load(await bytesOf(source), options);
}
