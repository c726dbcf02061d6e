//! For tests of this module: the recorded cases, the project's own streams, a simple splitter of both, and a decoder's run
//! over events.
//!
//! It must never be built into the engine. The engine's own parser is `sse`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Completion, Decoder, DeltaSink, Failure, Flow};

/// One recorded response.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) meta: Value,
    pub(crate) expected: Value,
    pub(crate) body: Vec<u8>,
}

impl Case {
    pub(crate) fn status(&self) -> u16 {
        u16::try_from(self.meta["status"].as_u64().unwrap()).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.meta["headers"][name].as_str().map(str::to_owned)
    }
}

/// The recorded cases of one API folder; `None`, with a line on the terminal, if the recordings are not available.
pub(crate) fn cases(api: &str) -> Option<Vec<Case>> {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting")]
    let root = std::env::var_os("NEXUS_FIXTURES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures/recorded"),
        PathBuf::from,
    );
    let Ok(folder) = std::fs::read_dir(root.join("cases").join(api)) else {
        println!("skipped: no recordings at `{}`", root.display());
        return None;
    };
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &Path, name: &str| std::fs::read(path.join(name)).unwrap();
    let json = |path: &Path, name: &str| serde_json::from_slice(&read(path, name)).unwrap();
    Some(
        paths
            .iter()
            .map(|path| Case {
                name: path.file_name().unwrap().to_string_lossy().into_owned(),
                meta: json(path, "response.meta.json"),
                expected: json(path, "expected.json"),
                body: read(path, "response.body"),
            })
            .collect(),
    )
}

/// One server-sent event: its name and its data.
pub(crate) type Event = (String, Vec<u8>);

/// Splits a whole recorded stream, with any line ends.
pub(crate) fn events(body: &[u8]) -> Vec<Event> {
    let text = String::from_utf8_lossy(body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body));
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    for block in text.split("\n\n") {
        let mut name = String::new();
        let mut data: Vec<&str> = Vec::new();
        for line in block.lines() {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => value.clone_into(&mut name),
                "data" => data.push(value),
                _ => {}
            }
        }
        if !data.is_empty() {
            events.push((name, data.join("\n").into_bytes()));
        }
    }
    events
}

/// Feeds events as the transport does: until the decoder has ended, then the end.
pub(crate) fn decode<'a>(
    mut decoder: impl Decoder,
    events: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    sink: &mut dyn DeltaSink,
) -> Result<Completion, Failure> {
    for (name, data) in events {
        match decoder.event(name, data, sink)? {
            Flow::More => {}
            Flow::End => break,
        }
    }
    decoder.end(sink)
}

/// One stream or body of `tests/fixtures`, with its expected content.
pub(crate) struct Fixture {
    pub(crate) name: String,
    pub(crate) is_stream: bool,
    pub(crate) body: Vec<u8>,
    pub(crate) expected: Value,
}

/// The project's own streams and bodies of one API.
pub(crate) fn fixtures(api: &str) -> Vec<Fixture> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(api);
    let paths = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .filter(|path| !path.to_string_lossy().ends_with(".expected.json"))
        .map(|path| {
            let expected = std::fs::read(path.with_extension("expected.json")).unwrap();
            Fixture {
                name: path.display().to_string(),
                is_stream: path.extension().is_some_and(|ending| ending == "sse"),
                body: std::fs::read(&path).unwrap(),
                expected: serde_json::from_slice(&expected).unwrap(),
            }
        })
        .collect()
}
