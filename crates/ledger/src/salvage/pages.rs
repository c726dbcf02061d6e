//! The pages of a damaged file, each in its newest version from the log: SQLite's file format, read without SQLite.
//!
//! Nothing in the file is trusted without a check: a frame of the log counts only with its checksum and its commit. It must
//! never write.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::sqlite::file;

/// The page size of every ledger, used if the header cannot be read.
const PAGE: usize = 4096;
const MAGIC: &[u8] = b"SQLite format 3\0";

pub(super) struct Pages {
    main: File,
    log: Option<File>,
    /// The position in the log of the newest committed frame of each page.
    frames: HashMap<u32, u64>,
    pub(super) size: usize,
    pub(super) count: u32,
}

impl Pages {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut main = File::open(path)?;
        let length = main.metadata()?.len();
        let mut header = [0_u8; 100];
        let read = read_at(&mut main, 0, &mut header)?;
        let stored = usize::from(u16::from_be_bytes([header[16], header[17]]));
        let stored = if stored == 1 { 65_536 } else { stored };
        let sound = read == header.len()
            && header.starts_with(MAGIC)
            && stored.is_power_of_two()
            && (512..=65_536).contains(&stored);
        let size = if sound { stored } else { PAGE };
        let (mut log, mut frames) = (None, HashMap::new());
        if let Ok(mut found) = File::open(file::companion(path, "-wal")) {
            frames = read_log(&mut found, size)?;
            log = Some(found);
        }
        let whole = u32::try_from(length.div_ceil(size as u64)).unwrap_or(u32::MAX);
        let count = frames.keys().copied().max().unwrap_or(0).max(whole);
        Ok(Self { main, log, frames, size, count })
    }

    /// Page `number`, from 1: as much of it as the file has. A missing part must not be read as zeros, which are valid
    /// values.
    pub(super) fn read(&mut self, number: u32) -> io::Result<Vec<u8>> {
        let mut page = vec![0; self.size];
        let read = match (self.frames.get(&number), &mut self.log) {
            (Some(at), Some(log)) => read_at(log, *at, &mut page)?,
            _ => read_at(
                &mut self.main,
                u64::from(number.saturating_sub(1)) * self.size as u64,
                &mut page,
            )?,
        };
        page.truncate(read);
        Ok(page)
    }
}

/// Fills the buffer as far as the file has bytes, and returns their number.
fn read_at(file: &mut File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(at))?;
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..)
        && !rest.is_empty()
    {
        match file.read(rest)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

/// The pages of every committed transaction, up to the first frame that is not sound.
fn read_log(log: &mut File, size: usize) -> io::Result<HashMap<u32, u64>> {
    let mut header = [0_u8; 32];
    let mut frames = HashMap::new();
    if read_at(log, 0, &mut header)? < header.len() {
        return Ok(frames);
    }
    let word = |bytes: &[u8], at: usize| {
        bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_be_bytes)
    };
    let magic = word(&header, 0);
    if magic & !1 != 0x377f_0682 || word(&header, 8) as usize != size {
        return Ok(frames);
    }
    let big = magic & 1 == 1;
    let mut sums = checksum(big, header.get(..24).unwrap_or_default(), (0, 0));
    if sums != (word(&header, 24), word(&header, 28)) {
        return Ok(frames);
    }
    let mut pending: Vec<(u32, u64)> = Vec::new();
    let mut at = 32_u64;
    let mut frame = vec![0_u8; 24 + size];
    while read_at(log, at, &mut frame)? == frame.len() {
        let (head, page) = frame.split_at(24);
        sums = checksum(big, head.get(..8).unwrap_or_default(), sums);
        sums = checksum(big, page, sums);
        let same_salt = head.get(8..16) == header.get(16..24);
        if !same_salt || sums != (word(head, 16), word(head, 20)) {
            break;
        }
        pending.push((word(head, 0), at + 24));
        if word(head, 4) != 0 {
            frames.extend(pending.drain(..));
        }
        at += frame.len() as u64;
    }
    Ok(frames)
}

/// The log's own checksum: two sums over words, each of which includes the other.
fn checksum(big: bool, bytes: &[u8], (mut first, mut second): (u32, u32)) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let (left, right) = pair.split_at(4);
        let word = |half: &[u8]| {
            let half: [u8; 4] = half.try_into().unwrap_or_default();
            if big { u32::from_be_bytes(half) } else { u32::from_le_bytes(half) }
        };
        first = first.wrapping_add(word(left)).wrapping_add(second);
        second = second.wrapping_add(word(right)).wrapping_add(first);
    }
    (first, second)
}
