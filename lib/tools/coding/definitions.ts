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
  grep: {
    description:
      'Search file contents for a pattern. Returns matching lines with file paths and line numbers. Respects .gitignore. Output is truncated to 100 matches or 50KB (whichever is hit first). Long lines are truncated to 500 chars.',
    parameters: {
      type: 'object',
      properties: {
        pattern: { type: 'string', description: 'Search pattern (regex or literal string)' },
        path: {
          type: 'string',
          description: 'Directory or file to search (default: the workspace)',
        },
        glob: {
          type: 'string',
          description: "Filter files by glob pattern, e.g. '*.ts' or '**/*.spec.ts'",
        },
        ignoreCase: { type: 'boolean', description: 'Case-insensitive search (default: false)' },
        literal: {
          type: 'boolean',
          description: 'Treat pattern as literal string instead of regex (default: false)',
        },
        context: {
          type: 'number',
          description: 'Number of lines to show before and after each match (default: 0)',
        },
        limit: {
          type: 'number',
          description: 'Maximum number of matches to return (default: 100)',
        },
      },
      required: ['pattern'],
    },
    executionMode: 'parallel',
    replay: 'pure',
  },
  find: {
    description:
      'Search for files by glob pattern. Returns matching file paths relative to the search directory, newest first. Respects .gitignore. Output is truncated to 1000 results or 50KB (whichever is hit first).',
    parameters: {
      type: 'object',
      properties: {
        pattern: {
          type: 'string',
          description:
            "Glob pattern to match files, e.g. '*.ts', '**/*.json', or 'src/**/*.spec.ts'",
        },
        path: { type: 'string', description: 'Directory to search in (default: the workspace)' },
        limit: { type: 'number', description: 'Maximum number of results (default: 1000)' },
      },
      required: ['pattern'],
    },
    executionMode: 'parallel',
    replay: 'pure',
  },
  apply_patch: {
    description:
      "Apply a patch to one or more files: a unified diff, or the form that begins with '*** Begin Patch' ('*** Add File: path', '*** Delete File: path', '*** Update File: path', '*** Move to: path', '@@' before each hunk, lines with ' ', '-' or '+', '*** End Patch'). Paths are relative to the workspace. All changes are made, or none.",
    parameters: {
      type: 'object',
      properties: {
        patch: { type: 'string', description: 'The patch' },
        dryRun: {
          type: 'boolean',
          description: 'Only report whether the patch can be applied (default: false)',
        },
      },
      required: ['patch'],
    },
    executionMode: 'sequential',
    replay: 'reconcilable',
  },
  bash: {
    description:
      'Execute a bash command in the workspace. Returns stdout and stderr. Of a long output the beginning and the end are returned, and all of it is saved to a file that can be read. Optionally provide a timeout in seconds. Processes that the command leaves running are ended.',
    parameters: {
      type: 'object',
      properties: {
        command: { type: 'string', description: 'Bash command to execute' },
        timeout: { type: 'number', description: 'Timeout in seconds (optional)' },
      },
      required: ['command'],
    },
    executionMode: 'sequential',
    replay: 'unsafe',
  },
} as const

type CodingToolName = keyof typeof definitions

export type { CodingToolName }
export { definitions }
