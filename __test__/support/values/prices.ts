// Prices of models that tests declare. They must never be those of a real model.

/** US dollars per million tokens. */
export const price = {
  input: 1,
  output: 10,
  cacheRead: 0.5,
  cacheWrite: 2,
  cacheWrite1h: null,
  tiers: [],
}
