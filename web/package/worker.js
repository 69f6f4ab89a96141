// The other end of worker-network.js.

import { load } from "./ftbnn.js";
import { bitmapPicture, decode, imagePicture } from "./photo.js";

let network;

async function pictureOf(image) {
  if (image instanceof Blob) return decode(image);
  return image instanceof ImageBitmap ? bitmapPicture(image) : imagePicture(image);
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
    const prepared = performance.now();
    const scores = network.run(seen);
    const ran = performance.now();
    picture.close?.();
    const size = { width: picture.width, height: picture.height };
    return { top: network.top(scores, k), scores, seen, size, prepareMs: prepared - start, runMs: ran - prepared };
  },

  run: (pixels) => network.run(pixels),

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
