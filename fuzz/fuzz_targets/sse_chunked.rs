//! Feeds the target `sse_chunked` with libFuzzer's inputs. It must never judge them: `src/fuzz` does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nexus_agent_engine::fuzz::run("sse_chunked", data));
