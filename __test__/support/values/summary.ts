// A summary that passes the quality gate: every section, about an invented project. It must never name a real thing.

export const SUMMARY = [
  '## Goal\nBuild the house.',
  '## Constraints & preferences\nCheap.',
  '## Progress\nThe walls stand.',
  '## Key decisions\nBricks.',
  '## Next steps\nThe roof.',
  '## Critical context\n(none)',
].join('\n\n')
