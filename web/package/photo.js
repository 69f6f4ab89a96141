// Photos as networks want them, with the very pixels that Python's runtime makes of them (src/ftbnn/runtime/images.py):
// the shorter side resized, the centre cut out, in one resampling, which is Pillow's bilinear one to the last bit; a
// picture of the network's own size is taken as it is.
//
// A picture is { width, height, rows(first, count) }, RGBA bytes of some rows: large photos are never in memory at once
// a second time.

const PRECISION = 22; // bits behind the point of a coefficient: 32 - 8 of a pixel - 2 for sums
const STRIP_PIXELS = 1 << 21; // that are asked for at a time
export const MOST_PIXELS = 100_000_000;

/** An ImageData, or whatever has `data` (RGBA), `width` and `height`. */
export function imagePicture({ data, width, height }) {
  if (!(width >= 1 && height >= 1 && data?.length === 4 * width * height)) {
    throw new TypeError("an image has data (RGBA), width and height, as an ImageData has");
  }
  return { width, height, rows: (first, count) => data.subarray(4 * width * first, 4 * width * (first + count)) };
}

/** The upright picture of a file, decoded by the browser; call close() when it is done with. */
export async function decode(blob) {
  if (blob.size === 0) throw new Error("the file is empty");
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  } catch {
    throw new Error("it cannot be read as a picture");
  }
  if (bitmap.width * bitmap.height > MOST_PIXELS) {
    const size = `${bitmap.width} x ${bitmap.height}`;
    bitmap.close();
    throw new Error(`${size} pixels are more than ${MOST_PIXELS.toLocaleString("en")}`);
  }
  return bitmapPicture(bitmap);
}

/** An ImageBitmap as a picture. */
export function bitmapPicture(bitmap) {
  const { width, height } = bitmap;
  let canvas;
  const rows = (first, count) => {
    if (!canvas || canvas.height < count) {
      canvas = typeof OffscreenCanvas === "undefined"
        ? Object.assign(document.createElement("canvas"), { width, height: count })
        : new OffscreenCanvas(width, count);
    }
    const context = canvas.getContext("2d", { willReadFrequently: true, colorSpace: "srgb" });
    context.clearRect(0, 0, width, count);
    context.drawImage(bitmap, 0, first, width, count, 0, 0, width, count);
    return context.getImageData(0, 0, width, count).data;
  };
  return { width, height, rows, close: () => bitmap.close() };
}

/** The part of a photo that is seen, in its pixels: left, top, right, bottom. */
export function cropBox(size, target, resize) {
  const shorter = Math.min(size.width, size.height);
  const wide = Math.min(1, target.width / resize) * shorter, high = Math.min(1, target.height / resize) * shorter;
  const left = 0.5 * (size.width - wide), top = 0.5 * (size.height - high);
  return [left, top, left + wide, top + high];
}

/** Pixels [height][width][channels] of what a network with such an input sees of a picture. */
export function prepare(picture, { channels, height, width, resize }) {
  if (channels !== 1 && channels !== 3) {
    throw new Error(`the network takes ${channels} channels; give it images of its own size`);
  }
  if (picture.width === width && picture.height === height) return withoutAlpha(picture.rows(0, height), channels);
  const box = cropBox(picture, { height, width }, resize).map(Math.fround); // as Pillow keeps it
  const across = coefficients(picture.width, box[0], box[2], width);
  const down = coefficients(picture.height, box[1], box[3], height);
  // Which direction goes first makes a difference, as the result in between has 8 bits. This is Pillow 13's rule.
  const isDownFirst = picture.height > height && picture.height - height > 2 * (picture.width - width);
  const columns = isDownFirst ? picture.width : width;
  const rows = new RowSums(down, height, columns * channels);
  const last = down.first[height - 1] + down.count[height - 1];
  const strip = Math.max(1, Math.floor(STRIP_PIXELS / picture.width));
  for (let y = down.first[0]; y < last; y += strip) {
    const count = Math.min(strip, last - y);
    const pixels = withoutAlpha(picture.rows(y, count), channels);
    rows.add(y, isDownFirst ? pixels : resizeAcross(pixels, picture.width, count, channels, across));
  }
  return isDownFirst ? resizeAcross(rows.result(), columns, height, channels, across) : rows.result();
}

// Pillow's weights of the pixels that each result is made of; sums of integers, so that order does not matter.
function coefficients(size, start, end, count) {
  const scale = Math.fround(end - start) / count, filter = Math.max(scale, 1);
  const most = Math.ceil(filter) * 2 + 1;
  const table = { most, first: new Int32Array(count), count: new Int32Array(count), of: new Int32Array(count * most) };
  const weights = new Float64Array(most);
  for (let k = 0; k < count; k++) {
    const centre = start + (k + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - filter + 0.5));
    const pixels = Math.min(size, Math.trunc(centre + filter + 0.5)) - first;
    let sum = 0;
    for (let x = 0; x < pixels; x++) {
      const distance = Math.abs((x + first - centre + 0.5) * (1 / filter));
      weights[x] = distance < 1 ? 1 - distance : 0;
      sum += weights[x];
    }
    for (let x = 0; x < pixels; x++) {
      const share = sum !== 0 ? weights[x] / sum : weights[x];
      table.of[k * most + x] = Math.trunc(0.5 + share * (1 << PRECISION));
    }
    table.first[k] = first;
    table.count[k] = pixels;
  }
  return table;
}

function resizeAcross(pixels, width, rows, channels, table) {
  const { most, first, count, of } = table, columns = first.length, half = 1 << (PRECISION - 1);
  const out = new Uint8Array(rows * columns * channels);
  for (let y = 0, at = 0; y < rows; y++) {
    const row = y * width * channels;
    for (let k = 0; k < columns; k++) {
      const weights = k * most, taps = count[k];
      for (let c = 0; c < channels; c++) {
        let sum = half;
        for (let x = 0, from = row + first[k] * channels + c; x < taps; x++, from += channels) {
          sum = (sum + pixels[from] * of[weights + x]) | 0;
        }
        out[at++] = clip(sum >> PRECISION);
      }
    }
  }
  return out;
}

// Rows come some at a time, each is added to the results that it is part of.
class RowSums {
  constructor(table, height, line) {
    Object.assign(this, { table, height, line });
    this.sums = new Int32Array(height * line).fill(1 << (PRECISION - 1));
    this.begin = 0; // results before this one are done
  }

  add(y, lines) {
    const { table: { most, first, count, of }, line, sums } = this;
    for (let from = 0; from < lines.length; from += line, y++) {
      while (first[this.begin] + count[this.begin] <= y) this.begin++;
      for (let k = this.begin; k < this.height && first[k] <= y; k++) {
        const weight = of[k * most + y - first[k]], to = k * line;
        if (y < first[k] + count[k]) for (let x = 0; x < line; x++) sums[to + x] += lines[from + x] * weight;
      }
    }
  }

  result() {
    return Uint8Array.from(this.sums, (sum) => clip(sum >> PRECISION));
  }
}

function clip(value) {
  return value < 0 ? 0 : value > 255 ? 255 : value;
}

// Grey as Pillow has it: ITU-R 601-2 in 16 bits.
function withoutAlpha(rgba, channels) {
  const out = new Uint8Array((rgba.length / 4) * channels);
  if (channels === 1) {
    for (let k = 0, n = 0; n < out.length; k += 4, n++) {
      out[n] = (rgba[k] * 19595 + rgba[k + 1] * 38470 + rgba[k + 2] * 7471 + 0x8000) >> 16;
    }
  } else {
    for (let k = 0, n = 0; n < out.length; k += 4, n += 3) {
      out[n] = rgba[k];
      out[n + 1] = rgba[k + 1];
      out[n + 2] = rgba[k + 2];
    }
  }
  return out;
}
