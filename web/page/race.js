// This engine beside ONNX Runtime Web with the same network in floats: in turns, so that both meet the same machine.

const TURNS = 7, TURN_MS = 60;

class FloatNetwork {
  #worker = new Worker(new URL("./race-worker.js", import.meta.url), { type: "module" });
  #answer;

  constructor() {
    this.#worker.onmessage = ({ data }) => (data.error ? this.#answer.reject(new Error(data.error.message)) : this.#answer.resolve(data.value));
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#answer.reject(new Error(event.message ?? "the worker could not be loaded"));
    };
  }

  ask(method, ...args) {
    return new Promise((resolve, reject) => {
      this.#answer = { resolve, reject };
      this.#worker.postMessage({ method, args });
    });
  }

  close() {
    this.#worker.terminate();
  }
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const largest = (scores) => scores.indexOf(Math.max(...scores));

/** Milliseconds an image of each, the medians of some turns, and whether both say the same class. */
export async function race(network, bytes, pixels, said) {
  said("Getting the floats ready");
  const floats = new FloatNetwork();
  try {
    const { sizeBytes } = await floats.ask("load", bytes);
    const warm = await floats.ask("run", pixels, 2);
    const rounds = Math.max(1, Math.round(TURN_MS / warm.ms));
    const times = { ours: [], floats: [] };
    let ours;
    for (let turn = 0; turn < TURNS; turn++) {
      said(`Turn ${turn + 1} of ${TURNS}`);
      ours = await network.time(pixels, TURN_MS);
      times.ours.push(ours.ms);
      times.floats.push((await floats.ask("run", pixels, rounds)).ms);
    }
    return { ours: median(times.ours), floats: median(times.floats), sizeBytes, agree: largest(ours.scores) === largest(Array.from(warm.scores)) };
  } finally {
    floats.close();
  }
}
