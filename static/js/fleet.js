// A link to a line of the log (data-log-line) shows it in the viewer of this page where it is loaded; otherwise the link
// leads to the attempt's own page, whose log begins there. A line marked by the server is brought into view once.
const reveal = (node) => node.closest(".log")?.logViewer?.reveal(node);

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-log-line]");
  const node = link && document.getElementById(link.dataset.logLine);
  if (!node) return;
  event.preventDefault();
  reveal(node);
  node.closest(".log").scrollIntoView({ block: "nearest" });
});

document.addEventListener("htmx:after:swap", () => {
  const node = document.querySelector(".log-line[data-marked]");
  if (!node?.closest(".log")?.logViewer) return;
  delete node.dataset.marked;
  reveal(node);
});
