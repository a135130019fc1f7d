//! Compression methods of zips.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use deflate64::Deflate64Decoder;
use flate2::bufread::DeflateDecoder;

use crate::UnknownMethod;

/// A method that a Java NodeManager reads as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
    /// Windows compresses files above 2 GiB in this way.
    Deflated64,
    Bzip2,
}

impl TryFrom<u16> for Method {
    type Error = UnknownMethod;

    fn try_from(number: u16) -> Result<Self, UnknownMethod> {
        match number {
            0 => Ok(Self::Stored),
            8 => Ok(Self::Deflated),
            9 => Ok(Self::Deflated64),
            12 => Ok(Self::Bzip2),
            _ => Err(UnknownMethod(number)),
        }
    }
}

/// Reader of the content of an entry whose length is known before it.
pub(super) enum Decoder<R> {
    Stored(R),
    Deflated(DeflateDecoder<R>),
    Deflated64(Box<Deflate64Decoder<R>>),
    Bzip2(BzDecoder<R>),
}

impl<R: BufRead> Decoder<R> {
    pub(super) fn new(method: Method, packed: R) -> Self {
        match method {
            Method::Stored => Self::Stored(packed),
            Method::Deflated => Self::Deflated(DeflateDecoder::new(packed)),
            Method::Deflated64 => Self::Deflated64(Box::new(Deflate64Decoder::with_buffer(packed))),
            Method::Bzip2 => Self::Bzip2(BzDecoder::new(packed)),
        }
    }
}

impl<R: BufRead> Read for Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(content) => content.read(buffer),
            Self::Deflated(content) => content.read(buffer),
            Self::Deflated64(content) => content.read(buffer),
            Self::Bzip2(content) => content.read(buffer),
        }
    }
}
