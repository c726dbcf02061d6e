//! What a command prints: its beginning and its end in memory, and all of it in a file once it is longer. It must never hold more
//! than both limits, whatever is printed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::root::Scratch;
use crate::text::format_size;

const HEAD: usize = 32 * 1024;
const TAIL: usize = 96 * 1024;
/// The longest file; what is printed after it is not stored.
const MAX_FILE: u64 = 1024 * 1024 * 1024;

#[derive(Debug)]
enum Spill {
    /// Everything is in memory.
    None,
    Open(PathBuf, File),
    /// The file has no more space, or its limit is reached.
    Ended(PathBuf),
    Failed,
}

/// An output as it grows.
#[derive(Debug)]
pub(super) struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: Spill,
}

impl Printed {
    pub(super) fn new() -> Self {
        Self { head: Vec::new(), tail: VecDeque::new(), total: 0, spill: Spill::None }
    }

    pub(super) fn add(&mut self, bytes: &[u8], scratch: &Scratch) {
        let room = HEAD - self.head.len();
        let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
        self.total += u64::try_from(bytes.len()).unwrap_or(0);
        if matches!(self.spill, Spill::None) && self.tail.len() + to_tail.len() > TAIL {
            self.spill =
                self.spilled(scratch).map_or(Spill::Failed, |(path, file)| Spill::Open(path, file));
        }
        if let Spill::Open(path, file) = &mut self.spill
            && (self.total > MAX_FILE || file.write_all(bytes).is_err())
        {
            self.spill = Spill::Ended(std::mem::take(path));
        }
        self.head.extend_from_slice(to_head);
        let over = (self.tail.len() + to_tail.len()).saturating_sub(TAIL);
        self.tail.drain(..over.min(self.tail.len()));
        let last = to_tail.len().saturating_sub(TAIL);
        self.tail.extend(to_tail.get(last..).unwrap_or_default());
    }

    /// A file with what was printed so far.
    fn spilled(&mut self, scratch: &Scratch) -> io::Result<(PathBuf, File)> {
        let (path, mut file) = scratch.output("bash")?;
        file.write_all(&self.head)?;
        file.write_all(self.tail.make_contiguous())?;
        Ok((path, file))
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The file with all of it, if there is one.
    pub(super) fn path(&self) -> Option<&PathBuf> {
        match &self.spill {
            Spill::Open(path, _) | Spill::Ended(path) => Some(path),
            Spill::None | Spill::Failed => None,
        }
    }

    /// The last bytes, as text.
    pub(super) fn last(&self, most: usize) -> String {
        let all = self.head.len() + self.tail.len();
        let bytes: Vec<u8> =
            self.head.iter().chain(&self.tail).skip(all.saturating_sub(most)).copied().collect();
        text(&bytes)
    }

    /// The text for the model: all of it, or its beginning and its end.
    pub(super) fn text(&mut self) -> String {
        let tail = self.tail.make_contiguous();
        let left_out = self.total - u64::try_from(self.head.len() + tail.len()).unwrap_or(0);
        if left_out == 0 {
            return text(&[&self.head, &*tail].concat());
        }
        let left_out = format_size(left_out);
        let how = match &self.spill {
            Spill::Open(path, _) => format!("Full output: {}", path.display()),
            Spill::Ended(path) => {
                format!("The first part of the full output: {}", path.display())
            }
            Spill::None | Spill::Failed => "The full output could not be stored".to_owned(),
        };
        format!("{}\n\n[{left_out} left out here. {how}]\n\n{}", text(&self.head), text(tail))
    }

    /// How many bytes the text for the model has of the output, or nothing if it has all.
    pub(super) fn shown(&self) -> Option<usize> {
        let shown = self.head.len() + self.tail.len();
        (self.total > u64::try_from(shown).unwrap_or(0)).then_some(shown)
    }
}

/// Bytes as text: what is cut at either end loses the rest of its character.
fn text(bytes: &[u8]) -> String {
    let start = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
}
