import type { ImageLike, InputShape, Picture } from "./ftbnn.js";

/** Photos of more pixels are refused. */
export const MOST_PIXELS: number;
export function imagePicture(image: ImageLike): Picture;
export function bitmapPicture(bitmap: ImageBitmap): Picture & { close(): void };
/** The upright picture of a file, decoded by the browser; call close() when it is done with. */
export function decode(blob: Blob): Promise<Picture & { close(): void }>;
/** The part of a photo that is seen, in its pixels: left, top, right, bottom. */
export function cropBox(
  size: { width: number; height: number },
  target: { width: number; height: number },
  resize: number,
): [number, number, number, number];
/** Pixels [height][width][channels] of what a network with such an input sees of a picture. */
export function prepare(picture: Picture, input: InputShape & { resize: number }): Uint8Array;
