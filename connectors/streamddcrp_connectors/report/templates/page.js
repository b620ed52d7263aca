// The filter: rows of tables that do not hold all words typed are hidden; "/" goes to the field.
const field = document.getElementById("filter");
const said = document.getElementById("found");
const rows = [...document.querySelectorAll("tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());
function filter() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  rows.forEach((row, i) => {
    row.hidden = !words.every((word) => texts[i].includes(word));
    n += row.hidden ? 0 : 1;
  });
  said.textContent = words.length ? `${n} of ${rows.length} rows` : "";
}
field.addEventListener("input", filter);
field.closest("form").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && document.activeElement === field) {
    field.value = "";
    filter();
  }
});
// A link to a row that is hidden shows it.
window.addEventListener("hashchange", () => {
  const row = document.getElementById(location.hash.slice(1));
  if (row && row.hidden) {
    field.value = "";
    filter();
    row.scrollIntoView();
  }
});
