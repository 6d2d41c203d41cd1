// The command palette: "/" or Ctrl-K opens it, arrows choose, Enter opens. Results come from the server as a listbox.
const dialog = document.getElementById("palette");
const input = document.getElementById("palette-input");
const results = document.getElementById("palette-results");

function openPalette() {
  if (!dialog || dialog.open) return;
  dialog.showModal();
  input.select();
  htmx.trigger(input, "palette:open");
}

const isTyping = (element) => element.closest?.("input, textarea, select, [contenteditable]");
const options = () => [...results.querySelectorAll('[role="option"]')];
const chosen = () => options().findIndex((option) => option.getAttribute("aria-selected") === "true");

function choose(index) {
  const all = options();
  if (!all.length) return input.removeAttribute("aria-activedescendant");
  const wanted = (index + all.length) % all.length;
  all.forEach((option, i) => option.setAttribute("aria-selected", String(i === wanted)));
  input.setAttribute("aria-activedescendant", all[wanted].id);
  all[wanted].scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const asked = (event.key === "k" && (event.ctrlKey || event.metaKey)) ||
    (event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping(event.target));
  if (!asked || !dialog) return;
  event.preventDefault();
  openPalette();
});

document.addEventListener("click", (event) => {
  if (event.target.closest("[data-palette-open]")) openPalette();
  else if (event.target === dialog) dialog.close();
});

input?.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "ArrowDown") choose(chosen() + 1);
  else if (event.key === "ArrowUp") choose(chosen() - 1);
  else if (event.key === "Enter") options()[Math.max(0, chosen())]?.querySelector("a").click();
  else return;
  event.preventDefault();
});

results?.addEventListener("mousemove", (event) => {
  const index = options().indexOf(event.target.closest('[role="option"]'));
  if (index >= 0 && index !== chosen()) choose(index);
});

if (results) new MutationObserver(() => choose(0)).observe(results, { childList: true });
