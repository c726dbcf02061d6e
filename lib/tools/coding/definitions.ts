// The names, descriptions and parameters of the coding tools: those of pi's tools, so that a model finds what it knows.
// They are part of a prompt: a change of one breaks the prompt caches of its users.

const PATH = 'relative or absolute, in the workspace'

const definitions = {
  read: {
    description:
      'Read the contents of a file. Supports text files and images (jpg, png, gif, webp). Images are sent as attachments. For text files, output is truncated to 2000 lines or 50KB (whichever is hit first). Use offset/limit for large files. When you need the full file, continue with offset until complete.',
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string', description: `Path to the file to read (${PATH})` },
        offset: { type: 'number', description: 'Line number to start reading from (1-indexed)' },
        limit: { type: 'number', description: 'Maximum number of lines to read' },
      },
      required: ['path'],
    },
    executionMode: 'parallel',
    replay: 'pure',
  },
  edit: {
    description:
      'Edit a file by replacing exact text. The oldText must match exactly (including whitespace) and be in the file once. Use this for precise, surgical edits. Give several replacements of one file as edits: all of them are made, or none.',
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string', description: `Path to the file to edit (${PATH})` },
        oldText: {
          type: 'string',
          description: 'Exact text to find and replace (must match exactly)',
        },
        newText: { type: 'string', description: 'New text to replace the old text with' },
        edits: {
          type: 'array',
          description: 'Several replacements, each of a text of the file as it is now',
          items: {
            type: 'object',
            properties: { oldText: { type: 'string' }, newText: { type: 'string' } },
            required: ['oldText', 'newText'],
          },
        },
      },
      required: ['path'],
    },
    executionMode: 'sequential',
    replay: 'reconcilable',
  },
  write: {
    description:
      "Write content to a file. Creates the file if it doesn't exist, overwrites if it does. Automatically creates parent directories.",
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string', description: `Path to the file to write (${PATH})` },
        content: { type: 'string', description: 'Content to write to the file' },
      },
      required: ['path', 'content'],
    },
    executionMode: 'sequential',
    replay: 'idempotent',
  },
  ls: {
    description:
      "List directory contents. Returns entries sorted alphabetically, with '/' suffix for directories. Includes dotfiles. Output is truncated to 500 entries or 50KB (whichever is hit first).",
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string', description: 'Directory to list (default: the workspace)' },
        limit: {
          type: 'number',
          description: 'Maximum number of entries to return (default: 500)',
        },
      },
      required: [],
    },
    executionMode: 'parallel',
    replay: 'pure',
  },
} as const

type CodingToolName = keyof typeof definitions

export type { CodingToolName }
export { definitions }
