// Answers that failed, as errors, for callers who ask for it. It must never change a stream of a caller who does not.

import type { AssistantMessage, StreamOptions } from '../../../pi-ai.d.ts'

/** What a failed call throws with `throwOnError`. */
class ModelCallError extends Error {
  override readonly name = 'ModelCallError'
  readonly answer: AssistantMessage

  constructor(answer: AssistantMessage) {
    super(answer.errorMessage ?? `the call ended with ${answer.stopReason}`)
    this.answer = answer
  }
}

/** The stream, whose result rejects where the options say so. */
function throwing<Stream extends { result(): Promise<AssistantMessage> }>(
  stream: Stream,
  options: StreamOptions | undefined,
): Stream {
  if (options?.throwOnError !== true) return stream
  const result = stream.result.bind(stream)
  stream.result = async () => {
    const answer = await result()
    if (answer.stopReason === 'error' || answer.stopReason === 'aborted') {
      throw new ModelCallError(answer)
    }
    return answer
  }
  return stream
}

export { ModelCallError, throwing }
