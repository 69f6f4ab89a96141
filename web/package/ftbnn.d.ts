/** What the engine, or this package, refuses; `code` says of which kind it is. */
export class FtbnnError extends Error {
  readonly code: "argument" | "file" | "format" | "memory" | "other";
  constructor(message: string, code?: FtbnnError["code"]);
}

/** A URL, a Response, a Blob or File, or the bytes of a .ftbnn file. */
export type Source = string | URL | Response | Blob | ArrayBuffer | ArrayBufferView;

export interface LoadOptions {
  /** By default the first of these that there is. All give the same bits. */
  isa?: "relaxed" | "simd128" | "portable";
  /** Where the module comes from, if not from beside this file. */
  wasm?: Source | WebAssembly.Module;
  /** Memory that the network and one image may take; by default 2^30 bytes. */
  maxBytes?: number;
  /** Operations that an image may take; by default 2^40. */
  maxMacs?: number;
}

/** RGBA bytes, as an ImageData has them. */
export interface ImageLike {
  readonly data: Uint8Array | Uint8ClampedArray;
  readonly width: number;
  readonly height: number;
}

/** RGBA bytes of some rows at a time (photo.js). */
export interface Picture {
  readonly width: number;
  readonly height: number;
  rows(first: number, count: number): Uint8Array | Uint8ClampedArray;
  close?(): void;
}

/** A class that an image may be of: its name, its number, and its share of all (softmax). */
export interface Guess {
  name: string;
  index: number;
  share: number;
}

export interface OperatorTime {
  path: string;
  kind: string;
  macs: number;
  ms: number;
}

export interface InputShape {
  channels: number;
  height: number;
  width: number;
}

export interface NetworkFacts {
  readonly name: string;
  readonly isa: string;
  readonly inputShape: InputShape;
  readonly outputs: number;
  readonly classNames: string[];
  /** A photo's shorter side before its centre is cut out. */
  readonly resize: number;
  readonly mean: number[];
  readonly std: number[];
  readonly operatorCount: number;
  readonly sizeBytes: number;
}

export interface Network extends NetworkFacts {
  /** The `k` likeliest classes of an image, best first. */
  classify(image: ImageLike | Picture, k?: number): Guess[];
  /** A photo's pixels [height][width][channels] as the network wants them: those of Python's runtime. */
  prepare(image: ImageLike | Picture): Uint8Array;
  /** Scores of 8-bit pixels [height][width][channels], or of normalised floats [channels][height][width]. */
  run(pixels: Uint8Array | Uint8ClampedArray | Float32Array): Float32Array;
  /** The `k` best of an image's scores, with their shares of all. */
  top(scores: Float32Array, k?: number): Guess[];
  /** Where the time goes: of each operator the fastest of `rounds`. */
  profile(image: ImageLike | Picture | Uint8Array, rounds?: number): OperatorTime[];
  /** Gives the memory back. */
  close(): void;
}

export interface WorkerNetwork extends NetworkFacts {
  classify(image: ImageLike | ImageBitmap | Blob, k?: number): Promise<Guess[]>;
  /** Guesses, what the network saw of the image, and what preparing and running it took. */
  look(
    image: ImageLike | ImageBitmap | Blob,
    k?: number,
  ): Promise<{ top: Guess[]; scores: Float32Array; seen: Uint8Array; prepareMs: number; runMs: number }>;
  run(pixels: Uint8Array | Float32Array): Promise<Float32Array>;
  /** Scores, and the milliseconds that a run takes: the mean over at least so many. */
  time(pixels: Uint8Array | Float32Array, atLeastMs: number): Promise<{ scores: Float32Array; ms: number }>;
  profile(image: ImageLike | ImageBitmap | Blob | Uint8Array, rounds?: number): Promise<OperatorTime[]>;
  close(): void;
}

/** Loads a network into this thread: a page's own, a Worker's, or Node's. */
export function load(source: Source, options?: LoadOptions): Promise<Network>;
/** The same in a Worker of its own: the page stays quick meanwhile. Browsers only. */
export function loadInWorker(source: Source, options?: LoadOptions): Promise<WorkerNetwork>;
/** The version of the engine. */
export function version(options?: Pick<LoadOptions, "wasm">): Promise<string>;
/** The bytes of a source. */
export function bytesOf(source: Source): Promise<Uint8Array>;
