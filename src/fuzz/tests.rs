//! The fuzz targets without a fuzzer: the stored corpus, and seeded mutations of it, on every machine.
//!
//! `NEXUS_FUZZ_RUNS` sets the number of mutations per target (default 2,000). A finding becomes a file of the target's
//! corpus, and so a test. It must never depend on the time, nor write anything.

use std::path::Path;

use super::{TARGETS, run};

/// Tokens of the formats, which mutations insert beside random bytes.
const WORDS: [&[u8]; 28] = [
    b"\n\n",
    b"\r",
    b"\r\n",
    b"data: ",
    b"event: ",
    b":",
    b"\xEF\xBB\xBF",
    b"[DONE]",
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"null",
    b"-1",
    b"1e999",
    b"18446744073709551616",
    b"\\ud83d",
    b"\xF0\x9F",
    b"\0",
    b"true",
    b"\"index\":",
    b"\"type\":",
    b"{}",
    b"\"\"",
    b"error",
];

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}

fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut data = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len() + 1);
        let end = at + random.below((data.len() - at).min(64) + 1);
        match random.below(7) {
            0 if at < data.len() => data[at] ^= 1 << random.below(8),
            1 => data.insert(at, u8::try_from(random.below(256)).unwrap()),
            2 => drop(data.drain(at..end)),
            3 => data.splice(at..at, WORDS[random.below(WORDS.len())].to_vec()).for_each(drop),
            4 => data.splice(at..end, WORDS[random.below(WORDS.len())].to_vec()).for_each(drop),
            5 => {
                let part = data[at..end].to_vec();
                let to = random.below(data.len() + 1);
                data.splice(to..to, part).for_each(drop);
            }
            _ => {
                let other = &corpus[random.below(corpus.len())];
                data.truncate(at);
                data.extend_from_slice(&other[random.below(other.len() + 1)..]);
            }
        }
    }
    data
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|_| panic!("`{}`", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "`{}` is empty", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

#[expect(clippy::disallowed_methods, reason = "a test's own setting")]
fn runs() -> u64 {
    std::env::var("NEXUS_FUZZ_RUNS").map_or(2_000, |runs| runs.parse().unwrap())
}

fn fuzz(target: &str) {
    let corpus = corpus(target);
    corpus.iter().for_each(|data| run(target, data));
    for at in 0..runs() {
        let data = mutate(&mut Random(at), &corpus);
        let held = std::panic::catch_unwind(|| run(target, &data));
        assert!(held.is_ok(), "`{target}` fails for mutation {at}: `{}`", data.escape_ascii());
    }
    println!("{target}: {} inputs and {} mutations", corpus.len(), runs());
}

/// A test for each target, so that they run in parallel.
macro_rules! targets {
    ($($target:ident)*) => {
        $(#[test] fn $target() { fuzz(stringify!($target)) })*

        #[test]
        fn every_target_has_a_test_and_a_program() {
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
            for name in names {
                let program = programs.join(name).with_extension("rs");
                let text = std::fs::read_to_string(&program).unwrap();
                assert!(text.contains(&format!("\"{name}\"")), "`{}`", program.display());
            }
        }
    };
}

targets! {
    sse_bytes
    sse_chunked
    eventstream_frames
    reducer_anthropic
    reducer_chat
    reducer_responses
    reducer_google
    reducer_bedrock
    projection
    retry_after
}
