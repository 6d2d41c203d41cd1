// data-once: a form is sent once; its buttons rest until the answer is there. data-copy: text to the clipboard.
// data-autosubmit: a filter form sends itself on change.
function rest(form) {
  form.setAttribute("aria-busy", "true");
  for (const button of form.querySelectorAll('button:not([type="button"])')) button.disabled = true;
}

function wake(form) {
  form.removeAttribute("aria-busy");
  for (const button of form.querySelectorAll('button:not([type="button"])')) button.disabled = false;
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("form[data-once]");
  if (!form) return;
  if (form.getAttribute("aria-busy") === "true") {
    event.preventDefault();
    event.stopImmediatePropagation();
    return;
  }
  form.setAttribute("aria-busy", "true");
  // Later, so that the pressed button's own name and value are still part of what is sent.
  setTimeout(() => (event.defaultPrevented && !form.matches("[hx-post],[hx-put],[hx-patch],[hx-delete]") ? wake(form) : rest(form)));
}, true);

document.addEventListener("htmx:finally:request", (event) => {
  const form = event.target.closest?.("form[data-once]");
  if (form) wake(form);
});

// Coming back with the browser's back button shows the page as it was left: buttons resting.
addEventListener("pageshow", (event) => {
  if (event.persisted) document.querySelectorAll('form[data-once][aria-busy="true"]').forEach(wake);
});

document.addEventListener("change", (event) => {
  // A field that asks htmx by itself has already been answered.
  if (!event.target.matches("[hx-get]")) event.target.closest("form[data-autosubmit]")?.requestSubmit();
});

// A choice made before these scripts ran, or put back by the browser, asked nobody: fields that no longer show what the
// page was sent with ask now. Only where htmx answers a change; a form that sends itself would lead away from the page.
const ASKING = '[hx-get][hx-trigger^="change"]';
const FIELDS = 'select:not([hx-get]), textarea:not([hx-get]), input:not([type="hidden"], [hx-get])';
const caughtUp = new WeakSet();

function isChanged(field) {
  if (field instanceof HTMLSelectElement) {
    const options = [...field.options];
    const sent = options.findLast((option) => option.defaultSelected) ?? options.find((option) => !option.disabled);
    return sent !== undefined && !sent.selected;
  }
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  return field.value !== field.defaultValue;
}

function catchUp(asking) {
  const fields = asking.matches("select, input, textarea") ? [asking] : [...asking.querySelectorAll(FIELDS)];
  const changed = caughtUp.has(asking) ? undefined : fields.find(isChanged);
  if (!changed) return;
  caughtUp.add(asking);
  htmx.trigger(changed, "change");
}

// htmx may begin to listen after this script, or have begun before it; the browser puts values back before "pageshow".
document.addEventListener("htmx:after:init", ({ target }) => target.matches?.(ASKING) && catchUp(target));
addEventListener("pageshow", () => document.querySelectorAll(`${ASKING}[data-htmx-powered]`).forEach(catchUp));

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Plain http on a host name has no clipboard API.
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-near]");
  if (!button) return;
  await copy(button.dataset.copy ?? button.parentElement.querySelector("pre").textContent);
  const label = (button.dataset.label ??= button.textContent);
  button.textContent = button.dataset.done;
  setTimeout(() => (button.textContent = label), 1500);
});
