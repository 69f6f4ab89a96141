// The page without a network: what was fetched once is kept, and used when it cannot be fetched again.

const CACHE = "ftbnn";

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(keepAll());
});
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(fromNetwork(event.request));
});

// All but the floats to race against, which are large: those are kept once they were used.
async function keepAll() {
  const [files, contents] = await Promise.all(["./files.json", "./contents.json"].map((url) => fetch(url).then((r) => r.json())));
  const networks = contents.networks.map(({ name }) => `./zoo/${name}.ftbnn`);
  await (await caches.open(CACHE)).addAll([...files, "./contents.json", ...networks]);
}

async function fromNetwork(request) {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept) return kept;
    throw error;
  }
}
