// Chooses which dots of the figure before this script are shown, and says what each of them is.

{
  const figure = document.currentScript.previousElementSibling,
    plot = figure.querySelector("svg");
  const add = (parent, kind, text = "") => {
    const node = document.createElement(kind);
    node.textContent = text;
    parent.append(node);
    return node;
  };
  const count = add(figure, "output"),
    about = add(figure, "output");
  const boxes = new Map();
  let shown = [],
    chosen = null;

  const percent = (share) => `${(100 * share).toFixed(1)}%`;
  const texts = (dot) => dot.firstChild.textContent;
  function choose(dot) {
    chosen?.classList.remove("mark");
    chosen = dot;
    dot?.classList.add("mark");
    about.textContent = dot ? texts(dot) : "";
  }
  function update() {
    for (const [group, box] of boxes) group.toggleAttribute("hidden", !box.checked);
    shown = [...plot.querySelectorAll("g:not([hidden]) > circle")].sort(
      (a, b) => a.cx.baseVal.value - b.cx.baseVal.value,
    );
    const sure = shown.filter((dot) => dot.parentNode.dataset.kind !== "in doubt");
    const errors = sure.map((dot) => Math.abs(/^ratio ([\d.]+)/m.exec(texts(dot))[1] - 1)).sort((a, b) => a - b);
    const n = errors.length,
      mean = errors.reduce((sum, error) => sum + error, 0) / n;
    const median = (errors[(n - 1) >> 1] + errors[n >> 1]) / 2;
    count.textContent =
      `${shown.length} runs shown` +
      (n ? `; ${n} without doubt: mean error ${percent(mean)}, median ${percent(median)}` : "");
    choose(null);
  }
  function box(parent, words, changed) {
    const label = add(parent, "label"),
      input = add(label, "input");
    input.type = "checkbox";
    input.checked = true;
    input.addEventListener("change", () => {
      changed(input.checked);
      update();
    });
    label.append(` ${words}`);
    return input;
  }
  const groups = [...plot.querySelectorAll("g")];
  for (const kind of new Set(groups.map((group) => group.dataset.kind))) {
    const list = add(figure, "fieldset"),
      own = groups.filter((group) => group.dataset.kind === kind);
    box(add(list, "legend"), kind, (on) =>
      own.forEach((group) => {
        boxes.get(group).checked = on;
      }),
    );
    for (const group of own)
      boxes.set(
        group,
        box(list, `${group.dataset.name} (${group.childElementCount})`, () => {}),
      );
  }
  plot.tabIndex = 0;
  plot.setAttribute("role", "application");
  for (const name of ["pointermove", "pointerdown"])
    plot.addEventListener(name, (event) => {
      if (event.target.parentNode.dataset?.kind) choose(event.target);
    });
  plot.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by || !shown.length) return;
    event.preventDefault();
    choose(shown[(shown.indexOf(chosen) + by + shown.length) % shown.length]);
  });
  update();
}
