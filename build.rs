//! Build script: link arguments for the Node addon. It must never download or generate anything.
#![expect(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts through the environment only"
)]

fn main() {
    if std::env::var_os("CARGO_FEATURE_NODE").is_some() {
        napi_build::setup();
        // A worker thread that ends unloads the addon while its threads may still run; keep it mapped (docs/rules/faults.md#worker-threads).
        if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
            // Functions with the same code are linked once, because nothing here compares their addresses; only lld does it,
            // which is this target's own linker.
            if std::env::var("TARGET").as_deref() == Ok("x86_64-unknown-linux-gnu") {
                println!("cargo:rustc-cdylib-link-arg=-Wl,--icf=all");
            }
        }
    }
}
