//! What an archive uses and no reader knows.

use std::fmt;

use thiserror::Error;

/// Reason why an entry of an archive is refused by its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// Name of a jar's entry in another encoding.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// Device, pipe or the like.
    #[error("it is neither file, folder nor link")]
    SpecialFile,
    /// Entry of a tar that begins in another file.
    #[error("it is continued from another volume")]
    Continued,
    /// Entry of a tar whose kind no known program writes.
    #[error("it is of the unknown kind {kind:?}", kind = char::from(*.0))]
    UnknownKind(u8),
    /// Sparse file of a tar in another form than GNU's.
    #[error("it uses an unknown form of sparse files")]
    SparseForm,
    /// Encrypted entry of a zip.
    #[error("it uses encryption")]
    Encrypted,
    /// Entry of a zip with a method that is not supported.
    #[error("it uses the compression method {0}")]
    Compression(UnknownMethod),
    /// Entry of a zip whose end cannot be found without its length.
    #[error("it uses a descriptor behind its data for a length that is needed before it")]
    LengthBehind,
}

/// Number of a compression method of zips that is not supported (APPNOTE 4.4.5). Displayed with its
/// name, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMethod(pub u16);

impl fmt::Display for UnknownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "shrink",
            2..=5 => "reduce",
            6 => "implode",
            14 => "LZMA",
            20 | 93 => "Zstandard",
            94 => "MP3",
            95 => "XZ",
            96 => "JPEG",
            97 => "WavPack",
            98 => "PPMd",
            99 => "AES encryption",
            _ => return write!(f, "{}", self.0),
        };
        write!(f, "{} ({name})", self.0)
    }
}
