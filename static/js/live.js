// Polling: elements with hx-trigger="every …" refresh while the tab is visible, at once when it becomes visible again,
// and the header says whether what you see is live. An answer that is an error never replaces what is on the page.
const POLLING = '[hx-trigger*="every"]';
// Answers with these statuses carry a fragment meant for the page: a form with its errors, a conflict in words.
const SHOWN = new Set([409, 422]);

const indicator = document.getElementById("live");
let lostSince = null;

const polls = (element) => element instanceof Element && element.matches(POLLING);

function show() {
  if (!indicator) return;
  const mode = lostSince ? "lost" : document.hidden ? "paused" : "live";
  indicator.hidden = !lostSince && !document.querySelector(POLLING);
  if (indicator.dataset.mode === mode) return;
  indicator.dataset.mode = mode;
  indicator.textContent = indicator.dataset[mode] + (lostSince ? ` (${lostSince.toLocaleTimeString()})` : "");
}

function lost() {
  lostSince ??= new Date();
  show();
}

function announceFailure(status) {
  const template = document.getElementById("request-failed");
  const area = document.getElementById("messages");
  if (!template || !area) return;
  const notice = template.content.cloneNode(true);
  notice.querySelector("[data-status]").textContent = status;
  area.replaceChildren(notice);
  area.scrollIntoView({ block: "nearest" });
}

document.addEventListener("htmx:before:request", (event) => {
  if (document.hidden && polls(event.target)) event.preventDefault();
});

document.addEventListener("htmx:before:response", (event) => {
  // fetch followed a redirect: a whole page came, not a fragment. For a GET the session has ended, and loading this page
  // again leads to the log-in page and back; for a form it is where the server wants us next.
  const { request, response } = event.detail.ctx;
  if (!response.raw.redirected) return;
  event.preventDefault();
  if (request.method === "GET") location.reload();
  else location.assign(response.raw.url);
});

document.addEventListener("htmx:before:swap", (event) => {
  const status = event.detail.ctx.response?.status ?? 200;
  if (status < 400 || SHOWN.has(status)) {
    if (polls(event.target)) lostSince = null;
    return;
  }
  event.preventDefault();
  if (polls(event.target)) lost();
  else announceFailure(status);
});

document.addEventListener("htmx:error", (event) => {
  if (polls(event.target)) lost();
  else if (event.detail.error?.name !== "AbortError") announceFailure("–");
});

document.addEventListener("htmx:finally:request", (event) => {
  if (event.detail.ctx.response?.status === 204 && polls(event.target)) lostSince = null;
  show();
});

document.addEventListener("visibilitychange", () => {
  show();
  if (document.hidden) return;
  for (const element of document.querySelectorAll(POLLING)) htmx.trigger(element, "every", {}, false);
});

document.addEventListener("htmx:after:swap", show);
show();
