// Signing in without leaving the page when the token is wrong. Without scripts the form itself does it.

import { call } from "./api.js";
import { byId } from "./dom.js";
import { showProblem } from "./problem.js";

byId("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.currentTarget;
  try {
    await call("POST", "/login", { json: { token: form.elements.token.value } });
    location.assign(form.dataset.next);
  } catch (problem) {
    showProblem(byId("problem"), problem);
    form.elements.token.select();
  }
});
