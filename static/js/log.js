// The log viewer. htmx appends lines; this keeps the place, follows the end, pins errors, searches, and bounds memory.
const KEPT = 5000; // lines in the page; the download has all
const PINNED = 20;

function line(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = text;
  return button;
}

class Log {
  constructor(root) {
    this.root = root;
    this.lines = root.querySelector(".log-lines");
    this.search = root.querySelector("[data-log-search]");
    this.follow = root.querySelector("[data-log-follow]");
    this.count = root.querySelector("[data-log-count]");
    this.pinned = root.querySelector("[data-log-pinned]");
    this.dropped = 0;
    this.added([...this.lines.children]);
    new MutationObserver((records) => this.added(records.flatMap((record) => [...record.addedNodes])))
      .observe(this.lines, { childList: true });
    this.search.addEventListener("input", () => this.filter([...this.lines.children]));
    this.follow.addEventListener("change", () => this.toEnd());
    // Scrolling up stops following, scrolling back to the end takes it up again.
    this.lines.addEventListener("wheel", () => requestAnimationFrame(() => (this.follow.checked = this.atEnd())), { passive: true });
    this.lines.addEventListener("keyup", () => (this.follow.checked = this.atEnd()));
    root.querySelector("[data-log-wrap]").addEventListener("change", (event) =>
      this.lines.classList.toggle("no-wrap", !event.target.checked));
  }

  atEnd() {
    return this.lines.scrollHeight - this.lines.scrollTop - this.lines.clientHeight < 24;
  }

  toEnd() {
    if (this.follow.checked) this.lines.scrollTop = this.lines.scrollHeight;
  }

  added(nodes) {
    const fresh = nodes.filter((node) => node instanceof Element && node.isConnected);
    this.filter(fresh);
    for (const node of fresh) if (node.dataset.level === "error") this.pin(node);
    this.bound();
    this.toEnd();
    this.revealMarked(fresh);
  }

  // A line marked by the server is brought into view once, whether it came before this viewer or after.
  revealMarked(nodes) {
    const node = nodes.find((each) => each.isConnected && each.dataset.marked !== undefined);
    if (!node) return;
    delete node.dataset.marked;
    this.reveal(node);
  }

  bound() {
    const surplus = this.lines.childElementCount - KEPT;
    if (surplus <= 0) return;
    const height = this.lines.scrollHeight;
    for (let i = 0; i < surplus; i++) this.lines.firstElementChild.remove();
    this.dropped += surplus;
    this.lines.scrollTop -= height - this.lines.scrollHeight;
    this.tell();
  }

  pin(node) {
    // One pin per incident: the lines of a traceback follow their first line directly.
    if (node.previousElementSibling?.dataset.level === "error" || this.pinned.childElementCount >= PINNED) return;
    const button = line(node.textContent);
    button.addEventListener("click", () => this.reveal(node));
    this.pinned.append(button);
    this.pinned.hidden = false;
  }

  reveal(node) {
    this.follow.checked = false;
    this.search.value = "";
    this.filter([...this.lines.children]);
    this.lines.querySelector(".target")?.classList.remove("target");
    node.classList.add("target");
    this.lines.scrollTop = node.offsetTop - this.lines.offsetTop - this.lines.clientHeight / 3;
  }

  filter(nodes) {
    const wanted = this.search.value.trim().toLowerCase();
    for (const node of nodes) {
      if (node instanceof Element) node.hidden = wanted !== "" && !node.textContent.toLowerCase().includes(wanted);
    }
    this.tell();
  }

  tell() {
    const { shown, matches, dropped } = this.root.dataset;
    const wanted = this.search.value.trim() !== "";
    const number = wanted ? this.lines.querySelectorAll(":scope > :not([hidden])").length : this.lines.childElementCount;
    this.count.textContent = `${number.toLocaleString("en")} ${wanted ? matches : shown}` + (this.dropped ? `, ${dropped}` : "");
  }
}

function start(root) {
  for (const element of root.querySelectorAll?.("[data-log]") ?? []) {
    if (!element.logViewer) element.logViewer = new Log(element);
  }
}

start(document);
document.addEventListener("htmx:after:swap", () => start(document));
