// Drawing with mouse, pen, finger or keys. What is drawn are lines, so that they can be drawn again at the size and the
// place that digits of MNIST have: 20 of 28 pixels high or wide, their centre of mass in the middle.

const PEN = 34, STEP = 14;

export class Pad {
  #strokes = [];
  #cursor;
  #pointer;

  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (this.#pointer = undefined));
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("keyup", (event) => event.key === "Shift" && (this.#keyStroke = undefined));
    canvas.addEventListener("blur", () => { this.#cursor = this.#keyStroke = undefined; this.#draw(); });
    this.#draw();
  }

  #keyStroke;

  get isEmpty() {
    return this.#strokes.length === 0;
  }

  clear() {
    this.#strokes = [];
    this.#change();
  }

  undo() {
    this.#strokes.pop();
    this.#keyStroke = undefined;
    this.#change();
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  #down(event) {
    if (event.button > 0) return;
    this.#pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.#cursor = undefined;
    this.#strokes.push([this.#point(event)]);
    this.#change();
  }

  #move(event) {
    if (event.pointerId !== this.#pointer) return;
    const several = event.getCoalescedEvents?.() ?? [];
    for (const one of several.length ? several : [event]) this.#strokes.at(-1).push(this.#point(one));
    this.#change();
  }

  #key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (["Delete", "Escape"].includes(event.key)) this.clear();
    else if (event.key === "Backspace") this.undo();
    else if (event.key in ways) {
      const { width } = this.canvas, [x, y] = this.#cursor ?? [width / 2, width / 2];
      const to = [x + STEP * ways[event.key][0], y + STEP * ways[event.key][1]].map((v) => Math.min(width - 8, Math.max(8, v)));
      this.#cursor = to;
      if (event.shiftKey) {
        if (!this.#keyStroke) this.#strokes.push((this.#keyStroke = [[x, y]]));
        this.#keyStroke.push(to);
        this.#change();
      } else {
        this.#keyStroke = undefined;
        this.#draw();
      }
    } else return;
    event.preventDefault();
  }

  #change() {
    this.#draw();
    this.changed();
  }

  #draw() {
    const context = this.canvas.getContext("2d");
    paint(context, this.#strokes, PEN);
    if (!this.#cursor) return;
    context.strokeStyle = "#e4572e";
    context.lineWidth = 3;
    context.beginPath();
    context.arc(...this.#cursor, PEN / 2, 0, 7);
    context.stroke();
  }

  /** The drawing, as large as a digit's should be: `part` of the square, lines of `pen` of it. */
  image(part, pen) {
    const side = this.canvas.width, points = this.#strokes.flat();
    const [xs, ys] = [0, 1].map((k) => points.map((point) => point[k]));
    const box = [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
    const scale = Math.min((side * part - side * pen) / Math.max(box[2] - box[0], box[3] - box[1], 1), 3);
    const place = (dx, dy) => this.#strokes.map((stroke) => stroke.map(([x, y]) => [
      (x - (box[0] + box[2]) / 2) * scale + side / 2 + dx, (y - (box[1] + box[3]) / 2) * scale + side / 2 + dy]));
    const context = Object.assign(document.createElement("canvas"), { width: side, height: side })
      .getContext("2d", { willReadFrequently: true });
    paint(context, place(0, 0), side * pen);
    const [x, y] = centreOfMass(context.getImageData(0, 0, side, side));
    paint(context, place(side / 2 - x, side / 2 - y), side * pen);
    return context.getImageData(0, 0, side, side);
  }
}

function paint(context, strokes, width) {
  context.fillStyle = "#000";
  context.fillRect(0, 0, context.canvas.width, context.canvas.height);
  Object.assign(context, { strokeStyle: "#fff", fillStyle: "#fff", lineWidth: width, lineCap: "round", lineJoin: "round" });
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(...stroke[0]);
    for (const point of stroke.length > 1 ? stroke.slice(1) : [stroke[0]]) context.lineTo(...point);
    context.stroke();
  }
}

function centreOfMass({ data, width }) {
  let mass = 0, x = 0, y = 0;
  for (let k = 0; k < data.length; k += 4) {
    const at = k / 4;
    mass += data[k];
    x += data[k] * (at % width);
    y += data[k] * Math.floor(at / width);
  }
  return mass > 0 ? [x / mass, y / mass] : [width / 2, width / 2];
}
