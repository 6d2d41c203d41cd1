// Before the first paint: the colours this person chose. Not a module, so that it blocks and nothing flashes.
(() => {
  const choice = localStorage.getItem("theme");
  if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
})();
