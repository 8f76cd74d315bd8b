// Sets the chosen theme before the first paint: a classic script, because modules run after it.
{
  let theme = null;
  try {
    theme = localStorage.getItem("quadrill.theme");
  } catch {
    // The browser keeps nothing for this page: the theme of the system holds.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
