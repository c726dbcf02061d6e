//! Feeds the target `reducer_anthropic` with libFuzzer's inputs. It must never judge them: `src/fuzz` does.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nexus_agent_engine::fuzz::run("reducer_anthropic", data));
