// The network of a .ftbnn file once more in floats, as ONNX: signs, +1 and -1 are numbers like any other, scales are
// folded into the weights. It gives the same classes; a float engine has no use for its being binary.

import { signsOf } from "./ftbnn/file.js";

const FLOAT = 1, INT64 = 7;

// Protocol buffers, written from the inside out: a message is a list of byte arrays.
const varint = (number) => {
  const out = [];
  let left = BigInt(number);
  do {
    const low = Number(left & 127n);
    left >>= 7n;
    out.push(left > 0n ? low | 128 : low);
  } while (left > 0n);
  return Uint8Array.from(out);
};
const sizeOf = (parts) => parts.reduce((sum, part) => sum + part.length, 0);
const number = (field, value) => [varint(field << 3), varint(value)];
const bytes = (field, parts) => [varint((field << 3) | 2), varint(sizeOf(parts)), ...parts];
const text = (field, value) => bytes(field, [new TextEncoder().encode(value)]);
const real = (field, value) => [varint((field << 3) | 5), new Uint8Array(Float32Array.of(value).buffer)];

class Graph {
  nodes = [];
  initializers = [];
  #names = 0;

  constant(values, dims) {
    const name = `c${this.#names++}`;
    const type = values instanceof BigInt64Array ? INT64 : FLOAT;
    const raw = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    this.initializers.push(...bytes(5, [...dims.flatMap((dim) => number(1, dim)), ...number(2, type), ...text(8, name), ...bytes(9, [raw])]));
    return name;
  }

  add(type, inputs, attributes = {}) {
    const name = `v${this.#names++}`;
    const fields = Object.entries(attributes).flatMap(([key, value]) => bytes(5, [
      ...text(1, key),
      ...(Array.isArray(value) ? [...value.flatMap((n) => number(8, n)), ...number(20, 7)]
        : Number.isInteger(value) ? [...number(3, value), ...number(20, 2)] : [...real(2, value.real), ...number(20, 1)]),
    ]));
    this.nodes.push(...bytes(1, [...inputs.flatMap((input) => text(1, input)), ...text(2, name), ...text(4, type), ...fields]));
    return name;
  }
}

const refuse = (op) => {
  throw new Error(`${op.path || op.kind} (${op.kind}) has no float twin here`);
};

function windowOf(op) {
  const { inputShape: i, outputShape: o } = op;
  const below = Math.max(0, (o.height - 1) * op.sh + op.kh - op.ph - i.height);
  const right = Math.max(0, (o.width - 1) * op.sw + op.kw - op.pw - i.width);
  return { kernel_shape: [op.kh, op.kw], strides: [op.sh, op.sw], pads: [op.ph, op.pw, below, right] };
}

function convolution(graph, op, input, weights, settings) {
  const out = op.outputShape.channels, each = weights.length / out, { scale, shift } = op.end;
  const scaled = scale ? weights.map((w, k) => w * scale[Math.floor(k / each)]) : weights;
  const { kh = 1, kw = 1 } = op;
  const names = [input, graph.constant(scaled, [out, each / (kh * kw), kh, kw])];
  if (shift) names.push(graph.constant(shift, [out]));
  return graph.add("Conv", names, settings);
}

// [out][kh][kw][in] as [out][in][kh][kw].
function inOrder(op) {
  const signs = signsOf(op), taps = op.kh * op.kw, inputs = signs.length / op.outputShape.channels / taps;
  return signs.map((_, k) => {
    const tap = k % taps, c = Math.floor(k / taps) % inputs, o = Math.floor(k / taps / inputs);
    return signs[(o * taps + tap) * inputs + c];
  });
}

function finish(graph, op, y, values) {
  const { end } = op, per = (numbers) => graph.constant(numbers, [1, numbers.length, 1, 1]);
  const bend = (left, right) => {
    const above = graph.add("Greater", [y, graph.constant(Float32Array.of(0), [1])]);
    return graph.add("Mul", [y, graph.add("Where", [above, per(right), per(left)])]);
  };
  if (end.firstLeft) y = bend(end.firstLeft, end.firstRight);
  if (end.shortcut !== undefined) y = graph.add("Add", [y, values.get(end.shortcut)]);
  if (end.act === "relu") y = graph.add("Relu", [y]);
  else if (end.act === "prelu") y = graph.add("PRelu", [y, graph.constant(end.left, [end.left.length, 1, 1])]);
  else if (end.act === "fprelu") y = bend(end.left, end.right);
  else if (end.act === "clamp") {
    y = graph.add("Clip", [y, graph.constant(Float32Array.of(end.low), []), graph.constant(Float32Array.of(end.high), [])]);
  } else if (end.act === "hardswish") y = graph.add("HardSwish", [y]);
  else if (end.act === "hardsigmoid") y = graph.add("HardSigmoid", [y], { alpha: { real: 1 / 6 } });
  else if (end.act === "sigmoid") y = graph.add("Sigmoid", [y]);
  else if (end.act === "silu") y = graph.add("Mul", [y, graph.add("Sigmoid", [y])]);
  else if (end.act === "tanh") y = graph.add("Tanh", [y]);
  return end.after ? graph.add("Add", [y, per(end.after)]) : y;
}

const RULES = {
  conv: (graph, op, x) => convolution(graph, op, x, op.weights, { ...windowOf(op), group: groupsOf(op) }),
  "rounded-conv": (graph, op, x) => RULES.conv(graph, op, x),
  bconv: (graph, op, x) => {
    const bound = op.threshold ? graph.constant(op.threshold, [1, op.threshold.length, 1, 1]) : graph.constant(Float32Array.of(0), [1]);
    const above = graph.add("Greater", [x, bound]);
    const codes = [1, op.zeroOne ? 0 : -1].map((value) => graph.constant(Float32Array.of(value), [1]));
    return convolution(graph, op, graph.add("Where", [above, ...codes]), inOrder(op), { ...windowOf(op), group: groupsOf(op) });
  },
  linear: (graph, op, x) => convolution(graph, op, x, op.weights, { kernel_shape: [1, 1] }),
  "max-pool": (graph, op, x) => graph.add("MaxPool", [x], windowOf(op)),
  "avg-pool": (graph, op, x) => graph.add("AveragePool", [x], { ...windowOf(op), count_include_pad: op.wholeWindow ? 1 : 0 }),
  "average-to": (graph, op, x) => {
    const { inputShape: i, outputShape: o } = op, kernel = [i.height / o.height, i.width / o.width];
    if (!kernel.every(Number.isInteger)) refuse(op);
    return graph.add("AveragePool", [x], { kernel_shape: kernel, strides: kernel });
  },
  concat: (graph, op, ...inputs) => graph.add("Concat", inputs, { axis: 1 }),
  channels: (graph, op, x) => graph.add("Gather", [x, graph.constant(BigInt64Array.from(op.map, BigInt), [op.map.length])], { axis: 1 }),
  pointwise: (graph, op, x) => {
    const per = (numbers) => graph.constant(numbers, [1, numbers.length, 1, 1]);
    if (op.end.scale) x = graph.add("Mul", [x, per(op.end.scale)]);
    return op.end.shift ? graph.add("Add", [x, per(op.end.shift)]) : x;
  },
  flatten: (graph, op, x) => graph.add("Reshape", [x, graph.constant(BigInt64Array.of(1n, -1n, 1n, 1n), [4])]),
  combine: (graph, op, ...inputs) => graph.add(op.isSum ? "Add" : "Mul", inputs),
  map: (graph, op, x) => graph.add("Mul", [x, graph.constant(op.factors, [1, 1, op.outputShape.height, op.outputShape.width])]),
  steps: (graph, op) => refuse(op),
};

function groupsOf(op) {
  if (op.inputShape.channels % op.groups || op.outputShape.channels % op.groups) refuse(op); // the last one is larger
  return op.groups;
}

/** The bytes of an ONNX model: "input", normalised floats [1][channels][height][width], to "output". */
export function toOnnx(file) {
  const graph = new Graph(), values = new Map([[0, "input"]]);
  for (const op of file.operators) {
    const y = RULES[op.kind](graph, op, ...op.inputs.map((value) => values.get(value)));
    values.set(op.output, op.end ? finish(graph, op, y, values) : y);
  }
  const last = file.operators.at(-1);
  graph.nodes.push(...bytes(1, [...text(1, values.get(last.output)), ...text(2, "output"), ...text(4, "Identity")]));
  const info = (field, name, { channels, height, width }) => bytes(field, [
    ...text(1, name),
    ...bytes(2, bytes(1, [...number(1, FLOAT), ...bytes(2, [1, channels, height, width].flatMap((dim) => bytes(1, number(1, dim))))])),
  ]);
  const model = [
    ...number(1, 8),
    ...bytes(8, [...text(1, ""), ...number(2, 17)]),
    ...bytes(7, [...graph.nodes, ...text(2, file.name || "network"), ...graph.initializers, ...info(11, "input", file.input), ...info(12, "output", last.outputShape)]),
  ];
  const out = new Uint8Array(sizeOf(model));
  let at = 0;
  for (const part of model) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
