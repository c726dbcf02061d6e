// Numbers that look random and are the same in every run. A seed is printed by who uses it.

/** A whole number below `under`, one after another. */
export function random(seed: number): (under: number) => number {
  let state = BigInt(seed) * 2n + 1n
  return (under) => {
    state = BigInt.asUintN(64, state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n)
    return Number((state >> 33n) % BigInt(under))
  }
}
