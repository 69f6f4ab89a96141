// Headless Chromium on a folder of files, for tests and measurements.

import { createServer } from "node:http";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const TYPES = {
  ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".json": "application/json",
  ".wasm": "application/wasm", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json",
};

/** Serves the folder `/` -> roots[0], or `/name/` -> roots.name; gives its address and what ends it. */
export async function serve(roots) {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const [, name] = path.split("/");
    const file = name in roots ? join(roots[name], normalize(path.slice(name.length + 1))) : join(roots[""] ?? ".", normalize(path));
    try {
      const body = await readFile(path.endsWith("/") ? join(file, "index.html") : file);
      response.writeHead(200, { "Content-Type": TYPES[extname(file) || ".html"] ?? "application/octet-stream" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

export function chromiumPath() {
  const found = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(
    (path) => path && existsSync(path),
  );
  if (!found) throw new Error("no Chromium: apt-get install chromium, or say where it is by CHROMIUM=");
  return found;
}

export function launch(args = []) {
  return chromium.launch({
    executablePath: chromiumPath(),
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", ...args],
  });
}
