// What networks are made of, as pictures: tiles on a canvas.

/** What the network was given: 8-bit pixels [height][width][channels]. */
export function showSeen(canvas, pixels, { channels, height, width }) {
  const image = new ImageData(width, height);
  for (let k = 0; k < width * height; k++) {
    for (let c = 0; c < 3; c++) image.data[4 * k + c] = pixels[k * channels + (channels === 3 ? c : 0)];
    image.data[4 * k + 3] = 255;
  }
  Object.assign(canvas, { width, height }).getContext("2d").putImageData(image, 0, 0);
}

// Tiles side by side, a pixel between them; color(tile, pixel) gives red, green and blue.
function tiles(canvas, count, { height, width }, columns, color) {
  const rows = Math.ceil(count / columns), gap = Math.max(1, Math.round(width / 12));
  const image = new ImageData(columns * (width + gap) - gap, rows * (height + gap) - gap);
  for (let tile = 0; tile < count; tile++) {
    const left = (tile % columns) * (width + gap), top = Math.floor(tile / columns) * (height + gap);
    for (let k = 0; k < width * height; k++) {
      const at = 4 * ((top + Math.floor(k / width)) * image.width + left + (k % width));
      image.data.set(color(tile, k), at);
      image.data[at + 3] = 255;
    }
  }
  Object.assign(canvas, { width: image.width, height: image.height }).getContext("2d").putImageData(image, 0, 0);
}

/** Numbers [channels][height][width] as a binary convolution sees them: above its thresholds or not. */
export function showSigns(canvas, numbers, shape, threshold, most) {
  const count = Math.min(shape.channels, most), plane = shape.height * shape.width;
  tiles(canvas, count, shape, 8, (tile, k) =>
    numbers[tile * plane + k] > (threshold?.[tile] ?? 0) ? [244, 238, 228] : [38, 39, 46]);
  return count;
}

/** Weights [out][in][kh][kw] of a real convolution: of three channels in colour, else the first in grey. */
export function showFilters(canvas, op, most) {
  const taps = op.kh * op.kw, inputs = op.weights.length / op.outputShape.channels / taps;
  const count = Math.min(op.outputShape.channels, most), isColour = inputs === 3;
  tiles(canvas, count, { height: op.kh, width: op.kw }, count > 16 ? 16 : 8, (tile, k) => {
    const own = op.weights.subarray(tile * inputs * taps, (tile + 1) * inputs * taps);
    const largest = own.reduce((most, w) => Math.max(most, Math.abs(w)), 1e-12);
    const grey = (c) => 128 + (127 * own[c * taps + k]) / largest;
    return isColour ? [grey(0), grey(1), grey(2)] : Array(3).fill(grey(0));
  });
  return { count, isColour };
}

/** A photo, with all but the part that the network sees darkened. */
export function showPhoto(canvas, bitmap, box) {
  const scale = Math.min(1, 900 / Math.max(bitmap.width, bitmap.height));
  const context = Object.assign(canvas, {
    width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)),
  }).getContext("2d");
  const [left, top, right, bottom] = box.map((value) => value * scale);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  context.fillStyle = "rgb(10 10 12 / 62%)";
  context.beginPath();
  context.rect(0, 0, canvas.width, canvas.height);
  context.rect(left, top, right - left, bottom - top);
  context.fill("evenodd");
}
