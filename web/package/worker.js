// The other end of worker-network.js.

import { load } from "./ftbnn.js";
import { bitmapPicture, decode, imagePicture } from "./photo.js";

let network;

async function pictureOf(image) {
  if (image instanceof Blob) return decode(image);
  return image instanceof ImageBitmap ? bitmapPicture(image) : imagePicture(image);
}

// Milliseconds a run, of as many as fit into so many: browsers' clocks are coarse.
function time(pixels, atLeast) {
  let scores, runs = 0;
  const start = performance.now();
  do {
    scores = network.run(pixels);
    runs++;
  } while (performance.now() - start < atLeast);
  return { scores, ms: (performance.now() - start) / runs };
}

const methods = {
  async load(bytes, options) {
    network = await load(bytes, options);
    return { ...network };
  },

  async look(image, k) {
    const picture = await pictureOf(image);
    const start = performance.now();
    const seen = network.prepare(picture);
    const prepareMs = performance.now() - start;
    picture.close?.();
    const { scores, ms } = time(seen, 4);
    return { top: network.top(scores, k), scores, seen, prepareMs, runMs: ms };
  },

  run: (pixels) => network.run(pixels),
  time,

  async profile(image, rounds) {
    return network.profile(image instanceof Uint8Array ? image : await pictureOf(image), rounds);
  },
};

let before = Promise.resolve(); // one after the other, in the order in which they came

onmessage = ({ data: { id, method, args } }) => {
  before = before.then(async () => {
    try {
      postMessage({ id, value: await methods[method](...args) });
    } catch (error) {
      postMessage({ id, error: { message: error.message, code: error.code } });
    }
  });
};
