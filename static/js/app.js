// What every page needs. Each module listens on the document, so content that htmx swaps in later works too.
import "./live.js";
import "./forms.js";
import "./log.js";
import "./menus.js";
import "./palette.js";
import "./switch.js";
