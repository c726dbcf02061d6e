//! Runs the fuzz target `sse_bytes` on the inputs of libFuzzer. It must never contain assertions: `src/fuzz` does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nexus_agent_engine::fuzz::run("sse_bytes", data));
