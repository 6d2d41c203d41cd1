// The colour switch: "" follows the system. theme.js applies the stored choice on the next page.
const root = document.documentElement;

function show() {
  const current = root.dataset.theme ?? "";
  for (const button of document.querySelectorAll("[data-theme-choice]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeChoice === current));
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-theme-choice]");
  if (!button) return;
  const choice = button.dataset.themeChoice;
  if (choice) {
    localStorage.setItem("theme", choice);
    root.dataset.theme = choice;
  } else {
    localStorage.removeItem("theme");
    delete root.dataset.theme;
  }
  show();
  document.dispatchEvent(new CustomEvent("theme:change"));
});

show();
