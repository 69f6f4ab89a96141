import type { InputShape } from "./ftbnn.js";

/** One operator as the file describes it; what a kind has beyond this is in docs/format.md, by the same names. */
export interface FileOperator {
  kind: string;
  path: string;
  inputs: number[];
  output: number;
  inputShape: InputShape;
  outputShape: InputShape;
  macs: number;
  weightBits?: number;
  weightBytes?: number;
  weights?: Float32Array;
  bits?: Uint8Array;
  threshold?: Float32Array;
  [field: string]: unknown;
}

export interface NetworkFile {
  version: number;
  name: string;
  input: InputShape;
  mean: number[];
  std: number[];
  resize: number;
  classNames: string[];
  values: InputShape[];
  operators: FileOperator[];
  [field: string]: unknown;
}

/** The network in a file that the engine has taken. */
export function readFile(bytes: Uint8Array): NetworkFile;
/** The weights of a binary convolution as +1 and -1, [out][kh][kw][in of its group]. */
export function signsOf(op: FileOperator): Float32Array;
/** A file of the network's beginning, whose output is `value`. */
export function beginning(bytes: Uint8Array, file: NetworkFile, value: number): Uint8Array;
export function crc32(bytes: Uint8Array): number;
