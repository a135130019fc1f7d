//! Formats of aggregated logs, behind one writer.

use std::io::{self, Read, Write};

use records::{ContainerName, EpochMillis};

use crate::aggregated_log::{AggregatedLog, Appended, Files};
use crate::indexed_log::{Description, IndexedLog};
use crate::tfile::Compression;

/// Format of the files (Hadoop: the class of `yarn.log-aggregation.file-controller.FORMAT.class`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// [`AggregatedLog`] (`LogAggregationTFileController`).
    TFile,
    /// [`IndexedLog`] (`LogAggregationIndexedFileController`).
    Indexed,
}

/// Log of an application that is being written.
pub(crate) enum LogWriter<W> {
    TFile(AggregatedLog<W>),
    Indexed(IndexedLog<W>),
}

/// Files of one container in a log.
pub(crate) enum ContainerFiles<'a, 'b, W> {
    TFile(&'a mut Files<'b>),
    Indexed(&'a mut IndexedLog<W>),
}

impl<W: Write> LogWriter<W> {
    /// Starts a log at the first byte of `out`.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub(crate) fn new(
        out: W,
        format: Format,
        compression: Compression,
        description: Description,
    ) -> io::Result<Self> {
        Ok(match format {
            Format::TFile => {
                let Description { owner, acls, .. } = &description;
                Self::TFile(AggregatedLog::new(out, compression, owner, acls)?)
            }
            Format::Indexed => Self::Indexed(IndexedLog::new(out, compression, description)?),
        })
    }

    /// Returns whether further containers belong in another log.
    pub(crate) const fn is_full(&self) -> bool {
        match self {
            Self::TFile(_) => false,
            Self::Indexed(log) => log.is_full(),
        }
    }

    /// Appends the files that `append_files` adds, as those of one container.
    ///
    /// # Errors
    /// `out` takes no bytes, or `append_files` fails. Then the log is broken for good.
    pub(crate) fn append_container(
        &mut self,
        id: ContainerName,
        append_files: impl FnOnce(ContainerFiles<'_, '_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::TFile(log) => {
                log.append_container(id, |files| append_files(ContainerFiles::TFile(files)))
            }
            Self::Indexed(log) => {
                log.begin_container(id);
                append_files(ContainerFiles::Indexed(log))
            }
        }
    }

    /// Completes the log, which is uploaded as `file`, and returns what [`LogWriter::new`] was
    /// given, flushed.
    ///
    /// # Errors
    /// `out` takes no bytes.
    pub(crate) fn finish(self, file: &str, uploaded_at: EpochMillis) -> io::Result<W> {
        match self {
            Self::TFile(log) => log.finish(),
            Self::Indexed(log) => log.finish(file, uploaded_at),
        }
    }
}

impl<W: Write> ContainerFiles<'_, '_, W> {
    /// Appends at most `length` bytes of a file.
    ///
    /// # Errors
    /// The log takes no bytes. Trouble with `content` is no error.
    pub(crate) fn append(
        &mut self,
        name: &str,
        length: u64,
        modified: EpochMillis,
        content: &mut dyn Read,
    ) -> io::Result<Appended> {
        match self {
            Self::TFile(files) => files.append(name, length, content),
            Self::Indexed(log) => log.append(name, length, modified, content),
        }
    }
}
