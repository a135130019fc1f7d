//! The kept inputs of a target: the seeds that honest writers make, and those that a fuzzer found,
//! in a text of an input a line in base64, so that a change shows as lines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Target;

/// Bytes of a target's text at most: the corpus is read by every test run and kept for ever.
pub const TEXT_BYTES_MAX: usize = 96 * 1024;

/// Returns the path of a target's text.
#[must_use]
pub fn path(target: &Target) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    folder.join(target.name).with_extension("base64")
}

/// Reads the kept inputs of a target. A target without a text has none.
///
/// # Errors
/// The text cannot be read, or a line is not base64.
pub fn read(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let text = match fs::read_to_string(path(target)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let inputs = text.lines().map(|line| STANDARD.decode(line));
    inputs.collect::<Result<_, _>>().map_err(io::Error::other)
}

/// Writes every seed and every kept input of a target into files of a folder.
///
/// # Errors
/// A file cannot be read or written.
pub fn unpack(target: &Target, folder: &Path) -> io::Result<()> {
    let inputs = target.seeds().into_iter().chain(read(target)?);
    for (number, input) in inputs.enumerate() {
        fs::write(folder.join(format!("kept-{number:04}")), input)?;
    }
    Ok(())
}

/// Keeps the inputs in the files of a folder, the shortest first, as many as the text has room for.
/// Returns how many are kept, and how many there are.
///
/// # Errors
/// A file cannot be read or written.
pub fn pack(target: &Target, folder: &Path) -> io::Result<(usize, usize)> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.sort_unstable_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.dedup();
    let mut text = String::new();
    let mut kept = 0;
    for input in &inputs {
        let line = STANDARD.encode(input) + "\n";
        if text.len() + line.len() > TEXT_BYTES_MAX {
            break;
        }
        text += &line;
        kept += 1;
    }
    fs::write(path(target), text)?;
    Ok((kept, inputs.len()))
}
