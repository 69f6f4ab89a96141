// What a .ftbnn file says (docs/format.md), for those who want to look inside; the engine reads it by itself. The engine
// is also the one to judge a file: this reads one that it has taken.

const HEADER = 64, MAGIC = [0x89, 0x46, 0x54, 0x42, 0x4e, 0x4e, 0x0d, 0x0a];
const KINDS = ["", "conv", "bconv", "linear", "max-pool", "avg-pool", "average-to", "concat", "channels", "pointwise", "flatten",
  "rounded-conv", "steps", "combine", "map"];
const ACTS = ["none", "relu", "prelu", "fprelu", "clamp", "hardswish", "hardsigmoid", "sigmoid", "silu", "tanh"];

class Reader {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
  }
  #take(size) {
    this.at += size;
    if (this.at > this.bytes.length) throw new Error("the file ends inside its graph");
    return this.at - size;
  }
  u8() { return this.view.getUint8(this.#take(1)); }
  u32() { return this.view.getUint32(this.#take(4), true); }
  u64() { return Number(this.view.getBigUint64(this.#take(8), true)); }
  f32() { return this.view.getFloat32(this.#take(4), true); }
  list(item) { return Array.from({ length: this.u32() }, item); }
  text() {
    const size = this.u32(), at = this.#take(size);
    return new TextDecoder().decode(this.bytes.subarray(at, at + size));
  }
}

/** The network in a file: input, values and operators, with their numbers as typed arrays. */
export function readFile(bytes) {
  if (bytes.length < HEADER || MAGIC.some((byte, k) => bytes[k] !== byte)) throw new Error("this is not a .ftbnn file");
  const header = new Reader(bytes, 8);
  const version = header.u32();
  header.u32();
  header.u64();
  const payload = header.u64();
  const r = new Reader(bytes, HEADER);
  const shape = () => ({ channels: r.u32(), height: r.u32(), width: r.u32() });
  const name = r.text(), input = shape();
  const mean = Array.from({ length: input.channels }, () => r.f32());
  const std = Array.from({ length: input.channels }, () => r.f32());
  const resize = r.u32();
  const classNames = r.list(() => r.text());
  const valuesAt = r.at;
  const values = r.list(shape);
  const operators = [];
  const count = r.u32();
  for (let k = 0; k < count; k++) operators.push(readOperator(r, bytes, payload, values));
  return { version, name, input, mean, std, resize, classNames, values, operators, payload, valuesAt };
}

function readOperator(r, bytes, payload, values) {
  const start = r.at, kind = KINDS[r.u8()];
  if (!kind) throw new Error("an operator has an unknown kind");
  const op = { kind, path: r.text(), inputs: r.list(() => r.u32()), output: r.u32(), start };
  const blob = (Kind) => {
    const at = payload + r.u64(), size = r.u64();
    const copy = bytes.slice(at, at + size);
    op.weightBytes = Math.max(op.weightBytes ?? 0, size);
    return Kind === Uint8Array ? copy : new Kind(copy.buffer);
  };
  const window = () => {
    [op.kh, op.kw, op.sh, op.sw, op.ph, op.pw] = Array.from({ length: 6 }, () => r.u32());
  };
  const epilogue = () => {
    const flags = r.u8(), act = r.u8(), end = { act: ACTS[act] };
    if (flags & 1) end.scale = blob(Float32Array);
    if (flags & 2) end.shift = blob(Float32Array);
    if (flags & 4) end.shortcut = r.u32();
    if (act === 2 || act === 3) end.left = blob(Float32Array);
    if (act === 3) end.right = blob(Float32Array);
    if (act === 4) [end.low, end.high] = [r.f32(), r.f32()];
    if (flags & 8) end.after = blob(Float32Array);
    if (flags & 16) [end.firstLeft, end.firstRight] = [blob(Float32Array), blob(Float32Array)];
    op.end = end;
  };
  const fields = {
    conv: () => { window(); op.groups = r.u32(); op.weights = blob(Float32Array); op.weightBits = 32; epilogue(); },
    bconv: () => {
      window();
      op.groups = r.u32();
      const code = r.u8();
      op.zeroOne = (code & 1) === 1;
      op.bits = blob(Uint8Array);
      op.weightBits = 1;
      if (code & 2) op.threshold = blob(Float32Array);
      epilogue();
    },
    linear: () => { op.weights = blob(Float32Array); op.weightBits = 32; epilogue(); },
    "max-pool": window,
    "avg-pool": () => { window(); op.wholeWindow = r.u8() === 1; },
    "average-to": () => {},
    concat: () => {},
    channels: () => { op.map = blob(Int32Array); },
    pointwise: epilogue,
    flatten: () => {},
    "rounded-conv": () => {
      window();
      op.groups = r.u32();
      op.weightBits = r.u8();
      const integers = blob(op.weightBits === 8 ? Int8Array : Int16Array), unit = blob(Float32Array);
      const each = integers.length / unit.length;
      op.weights = Float32Array.from(integers, (value, k) => value * unit[Math.floor(k / each)]);
      epilogue();
    },
    steps: () => { op.steps = r.u32(); op.rows = r.u32(); op.thresholds = blob(Float32Array); },
    combine: () => { op.isSum = r.u8() === 1; },
    map: () => { op.factors = blob(Float32Array); },
  };
  fields[kind]();
  op.end_at = r.at;
  op.inputShape = values[op.inputs[0]];
  op.outputShape = values[op.output];
  op.macs = macsOf(op);
  return op;
}

function macsOf(op) {
  const { inputShape: i, outputShape: o } = op;
  if (op.kind === "linear") return i.channels * o.channels;
  if (op.weightBits === undefined) return 0;
  const size = (channels, g) => {
    const each = Math.floor(channels / op.groups);
    return g + 1 < op.groups ? each : channels - each * (op.groups - 1);
  };
  let products = 0;
  for (let g = 0; g < op.groups; g++) products += size(i.channels, g) * size(o.channels, g);
  return products * op.kh * op.kw * o.height * o.width;
}

/** The weights of a binary convolution as +1 and -1, [out][kh][kw][in of its group] as the file has them. */
export function signsOf(op) {
  const count = (op.macs / (op.outputShape.height * op.outputShape.width)) | 0;
  return Float32Array.from({ length: count }, (_, k) => ((op.bits[k >> 3] >> (k & 7)) & 1 ? 1 : -1));
}

/**
 * A file of the network's beginning: its output is `value`, which nothing behind it is needed for. So what any layer
 * sees is had by running a network that ends there.
 */
export function beginning(bytes, file, value) {
  const last = file.operators.findIndex((op) => op.output === value);
  if (last < 0) throw new Error(`no operator makes value ${value}`);
  const kept = file.operators.slice(0, last + 1);
  // Values are numbered by who writes them: the ones behind the cut have the largest numbers, if the file is in order.
  const numbers = new Map([[0, 0]]);
  for (const op of kept) numbers.set(op.output, numbers.size);
  const graph = [];
  const u32 = (number) => graph.push(number & 255, (number >>> 8) & 255, (number >>> 16) & 255, number >>> 24);
  graph.push(...bytes.subarray(HEADER, inputEnd(bytes, file)));
  u32(0); // class names
  u32(numbers.size);
  for (const number of numbers.keys()) {
    const { channels, height, width } = file.values[number];
    [channels, height, width].forEach(u32);
  }
  u32(kept.length);
  for (const op of kept) graph.push(...renumbered(bytes, op, numbers));
  return assemble(bytes, file, Uint8Array.from(graph));
}

function inputEnd(bytes, file) {
  const r = new Reader(bytes, HEADER);
  r.text();
  return r.at + 12 + 8 * file.input.channels + 4;
}

function renumbered(bytes, op, numbers) {
  const part = bytes.slice(op.start, op.end_at), r = new Reader(part, 1);
  r.text();
  const count = r.u32();
  const change = (at) => r.view.setUint32(at, numbers.get(r.view.getUint32(at, true)), true);
  for (let k = 0; k <= count; k++) change(r.at + 4 * k);
  if (op.end?.shortcut !== undefined) change(part.length - behindShortcut(op.end));
  return part;
}

// Bytes from the number of the shortcut to the operator's end.
function behindShortcut(end) {
  const blobs = [end.left, end.right, end.after, end.firstLeft, end.firstRight].filter(Boolean).length;
  return 4 + 16 * blobs + (end.low !== undefined ? 8 : 0);
}

function assemble(bytes, file, graph) {
  const start = HEADER + Math.ceil(graph.length / 64) * 64, payload = bytes.subarray(file.payload);
  const out = new Uint8Array(start + payload.length), view = new DataView(out.buffer);
  out.set(bytes.subarray(0, HEADER));
  out.set(graph, HEADER);
  out.set(payload, start);
  view.setBigUint64(16, BigInt(graph.length), true);
  view.setBigUint64(24, BigInt(start), true);
  view.setUint32(40, crc32(graph), true);
  view.setUint32(60, crc32(out.subarray(0, 60)), true);
  return out;
}

let table;

export function crc32(bytes) {
  table ??= Uint32Array.from({ length: 256 }, (_, n) => {
    for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
    return n;
  });
  let crc = 0xffffffff;
  for (const byte of bytes) crc = table[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}
