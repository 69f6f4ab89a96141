// A network in a Worker: messages there and back. Images travel as ImageData, ImageBitmap or Blob.

import { FtbnnError } from "./ftbnn.js";

export class WorkerNetwork {
  #worker;
  #waiting = new Map();
  #next = 0;

  static async load(bytes, options) {
    const network = new WorkerNetwork();
    network.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
    network.#worker.onmessage = ({ data }) => network.#answer(data);
    network.#worker.onerror = (event) => {
      event.preventDefault();
      network.#end(`the worker ended: ${event.message ?? "it could not be loaded"}`);
    };
    try {
      Object.assign(network, await network.#ask("load", bytes, options));
    } catch (error) {
      network.close();
      throw error;
    }
    return network;
  }

  /** Guesses, what the network saw of the image, and the milliseconds that preparing and running it took. */
  look(image, k) {
    return this.#ask("look", image, k);
  }

  async classify(image, k) {
    return (await this.look(image, k)).top;
  }

  run(pixels) {
    return this.#ask("run", pixels);
  }

  /** Scores, and the milliseconds that a run takes: the mean over at least so many. */
  time(pixels, atLeastMs) {
    return this.#ask("time", pixels, atLeastMs);
  }

  profile(image, rounds) {
    return this.#ask("profile", image, rounds);
  }

  close() {
    this.#worker.terminate();
    this.#end("this network is closed; load it again");
  }

  #ask(method, ...args) {
    if (this.#worker === undefined) return Promise.reject(new FtbnnError("this network is closed; load it again"));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, method, args });
    });
  }

  #answer({ id, value, error }) {
    const { resolve, reject } = this.#waiting.get(id);
    this.#waiting.delete(id);
    error === undefined ? resolve(value) : reject(new FtbnnError(error.message, error.code));
  }

  #end(message) {
    for (const { reject } of this.#waiting.values()) reject(new FtbnnError(message, "other"));
    this.#waiting.clear();
    this.#worker = undefined;
  }
}
