// Colours: as the system, light or dark. Runs before the page is drawn, so that nothing flashes.
(() => {
  const root = document.documentElement;
  const known = ["auto", "light", "dark"];
  const says = { auto: "Colours: as the system", light: "Colours: light", dark: "Colours: dark" };
  const sign = { auto: "◐", light: "○", dark: "●" };
  let theme = "auto";
  try {
    theme = localStorage.getItem("theme") ?? "auto";
  } catch {
    /* storage is switched off */
  }
  if (!known.includes(theme)) theme = "auto";
  root.dataset.theme = theme;
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      root.dataset.theme = theme;
      button.textContent = sign[theme];
      button.setAttribute("aria-label", says[theme]);
      button.title = says[theme];
    };
    show();
    button.addEventListener("click", () => {
      theme = known[(known.indexOf(theme) + 1) % known.length];
      try {
        localStorage.setItem("theme", theme);
      } catch {
        /* the choice lasts for this page */
      }
      show();
      dispatchEvent(new Event("themechange"));
    });
  });
})();
