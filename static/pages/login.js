// Signing in without leaving the page when the token is wrong. Without scripts the form itself does it.

import { call } from "../base/api.js";
import { byId } from "../base/dom.js";
import { showProblem } from "../base/problem.js";

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
