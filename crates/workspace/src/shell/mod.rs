//! The tool `bash`: `tool` runs a command and makes its result, `process` starts the shell, `process_count` counts what it runs,
//! `output` holds what it prints, `sandbox` says what it may reach (`landlock` is the kernel's interface), and `survivors` finds what it left running.

mod landlock;
mod output;
mod process;
mod process_count;
mod sandbox;
mod survivors;
mod tool;

pub(crate) use sandbox::{Directories, support};
pub(crate) use tool::{Shell, bash};
