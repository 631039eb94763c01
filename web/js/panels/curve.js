export const create = (app, root) => ({ show() { root.textContent = "not built yet"; } });
