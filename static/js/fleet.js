// A link to a line of the log (data-log-line) shows it in the viewer of this page where it is loaded; otherwise the link
// leads to the attempt's own page, whose log begins there.

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-log-line]");
  const node = link && document.getElementById(link.dataset.logLine);
  if (!node) return;
  event.preventDefault();
  node.closest(".log")?.logViewer?.reveal(node);
  node.closest(".log").scrollIntoView({ block: "nearest" });
});
