//! Compiles every `.proto` in `proto/` with protox, so that no `protoc` is needed, and keeps the
//! descriptors beside the generated code for the test that compares them with Hadoop's own. Also
//! writes the table of message sizes that `src/decode_cost.rs` reads.

#[path = "build/message_sizes.rs"]
mod message_sizes;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protox::prost::Message;

/// Messages with secrets: their `Debug` is in `src/proto/redacted.rs`.
const REDACTED: &[&str] = &[
    ".hadoop.common.CredentialsKVProto",
    ".hadoop.common.RpcSaslProto",
    ".hadoop.common.TokenProto",
    ".hadoop.yarn.ContainerLaunchContextProto",
    ".hadoop.yarn.MasterKeyProto",
    ".hadoop.yarn.RegisterApplicationMasterResponseProto",
    ".hadoop.yarn.StringBytesMapProto",
    ".hadoop.yarn.SystemCredentialsForAppsProto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let source_dir = Path::new("proto");
    println!("cargo::rerun-if-changed={}", source_dir.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(source_dir)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            sources.push(path);
        }
    }
    // The order of directory entries differs between machines; the generated code should not.
    sources.sort();

    let descriptors = protox::compile(&sources, [source_dir])?;
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out_dir.join("descriptors.bin"), descriptors.encode_to_vec())?;
    fs::write(
        out_dir.join("message_sizes.rs"),
        message_sizes::table(&descriptors)?,
    )?;
    prost_build::Config::new()
        // The table of sizes is looked up by them.
        .enable_type_names()
        // With `Bytes` a decoded message shares the frame it came from instead of copying tokens
        // and payloads.
        .bytes(["."])
        .skip_debug(REDACTED)
        .include_file("hadoop.rs")
        .compile_fds(descriptors)?;
    Ok(())
}
