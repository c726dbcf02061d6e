// How long a broker waits for a function of its host. It must never decide what follows from silence.

/** So long the host's functions have for an answer, in milliseconds. */
const SILENCE = 30_000

/** What a function answers; `late` makes the error where it does not answer within `ms` milliseconds. */
async function answerOf<T>(
  ask: () => T | Promise<T>,
  late: (why: string) => Error,
  ms = SILENCE,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const silence = new Promise<never>((_, reject) => {
    const end = () => reject(late(`did not answer within ${ms / 1000} s`))
    timer = setTimeout(end, ms)
  })
  try {
    return await Promise.race([(async () => ask())(), silence])
  } finally {
    clearTimeout(timer)
  }
}

export { answerOf }
