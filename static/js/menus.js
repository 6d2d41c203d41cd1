// Menus close on Escape, on a click elsewhere, and when another opens; data-close closes its details; data-dismiss its notice.
// On a narrow screen the navigation and the tabs scroll sideways: bring the current one into view.
for (const current of document.querySelectorAll(":is(.site-nav, .tabs) [aria-current]")) {
  current.scrollIntoView({ block: "nearest", inline: "center" });
}

const open = () => document.querySelectorAll("details.menu[open]");

document.addEventListener("click", (event) => {
  for (const menu of open()) {
    const inside = menu.contains(event.target);
    if (!inside || event.target.closest(".menu-items > a")) menu.open = false;
  }
  event.target.closest("[data-dismiss]")?.closest(".notice").remove();
  const closing = event.target.closest("[data-close]")?.closest("details");
  if (closing) {
    closing.open = false;
    closing.querySelector("summary").focus();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const details = event.target.closest?.("details.confirm[open], details.menu[open]") ?? open()[0];
  if (!details) return;
  details.open = false;
  details.querySelector("summary").focus();
});

document.addEventListener("toggle", (event) => {
  const details = event.target;
  if (!details.open || !details.matches("details.confirm")) return;
  details.querySelector("button:not([data-close]), input:not([type=hidden])")?.focus();
}, true);
