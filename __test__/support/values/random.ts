// Pseudo-random numbers, the same in every run. The caller prints the seed. It must never use the clock.

/** A generator of integers below `under`. */
export function random(seed: number): (under: number) => number {
  let state = BigInt(seed) * 2n + 1n
  return (under) => {
    state = BigInt.asUintN(64, state * 6_364_136_223_846_793_005n + 1_442_695_040_888_963_407n)
    return Number((state >> 33n) % BigInt(under))
  }
}
